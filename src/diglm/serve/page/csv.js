// CSV as people write it: quotes, commas or semicolons or tabs, any line ends.

export function parseCsv(text) {
  const body = text.replace(/^\ufeff/, "");
  const first = body.slice(0, body.search(/[\r\n]|$/));
  const separator = [",", ";", "\t", "|"].reduce((a, b) => (first.split(b).length > first.split(a).length ? b : a));
  const lines = [];
  let line = [];
  let cell = "";
  let quoted = false;
  for (let i = 0; i < body.length; i += 1) {
    const c = body[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (body[i + 1] === '"') { cell += c; i += 1; } else quoted = false;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === separator) { line.push(cell); cell = ""; } else if (c === "\n" || c === "\r") {
      if (c === "\r" && body[i + 1] === "\n") i += 1;
      line.push(cell);
      lines.push(line);
      line = [];
      cell = "";
    } else cell += c;
  }
  if (cell !== "" || line.length) lines.push([...line, cell]);
  const [names = [], ...rows] = lines.filter((cells) => cells.some((each) => each.trim() !== ""));
  const decimals = separator === "," ? rows : rows.map((cells) => cells.map((each) => (COMMA.test(each) ? each.replace(",", ".") : each)));
  return { names: names.map((name) => name.trim()), rows: decimals };
}

const COMMA = /^\s*[-+]?\d+,\d+\s*$/; // a number as much of Europe writes it
const MISSING = new Set(["", "?", ".", "na", "n/a", "nan", "null", "none", "<na>", "#n/a", "#value!", "#div/0!", "#ref!"]);

// A file's letters: Unicode if they can be that, else those of Western Windows.
export function decoded(buffer) {
  const bytes = new Uint8Array(buffer);
  const mark = bytes[0] * 256 + bytes[1];
  if (mark === 0xfffe) return new TextDecoder("utf-16le").decode(bytes);
  if (mark === 0xfeff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

// A cell's text as the column of the model takes it.
export function valueOf(text, column) {
  const plain = text.trim();
  if (column.type === "category") {
    const same = (level) => String(level) === (typeof level === "boolean" ? plain.toLowerCase() : plain);
    const found = column.categories.find(same);
    if (found !== undefined) return found;
    return MISSING.has(plain.toLowerCase()) ? null : plain;
  }
  if (MISSING.has(plain.toLowerCase())) return null;
  if (column.type === "date") return plain;
  const parsed = Number(plain);
  if (Number.isNaN(parsed)) throw new Error(`Column ${column.name} holds numbers, but the file has “${plain}”.`);
  return parsed;
}

export function toCsv(names, rows) {
  const quote = (value) => (/[",\n\r]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return [names, ...rows].map((cells) => cells.map(quote).join(",")).join("\n");
}

// Questions to the service. A token, if one is needed, stays in this tab.

const KEY = "diglm-token";

export class Refused extends Error {
  constructor(status, { error, hint }) {
    super(error);
    this.status = status;
    this.hint = status === 503 ? "Try again in a moment." : hint; // a person sees no headers
  }
}

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function ask(path, body) {
  const request = body === undefined
    ? { headers: headers() }
    : { method: "POST", headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(body) };
  const response = await fetch(path, request);
  const content = await response.json();
  if (response.status === 401) {
    await askForToken(content.error);
    return ask(path, body);
  }
  if (!response.ok) throw new Refused(response.status, content);
  return content;
}

function askForToken(error) {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token");
  const tried = sessionStorage.getItem(KEY);
  document.getElementById("token-error").textContent = tried ? error : "";
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, input.value);
      resolve();
    }, { once: true });
  });
}

// Calls `work` with the newest argument only, one call at a time: what was asked meanwhile is passed over.
export function newest(work) {
  let running = false;
  let next;
  return async function call(argument) {
    next = { argument };
    if (running) return;
    running = true;
    while (next) {
      const { argument: current } = next;
      next = undefined;
      await work(current, () => next === undefined);
    }
    running = false;
  };
}

export async function untilReady(tell) {
  for (let tries = 0; tries < 240; tries += 1) {
    const response = await fetch("/health");
    if (response.ok) {
      const { ready } = await response.json();
      if (ready) return;
    }
    tell("The model is being made ready …");
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error("The model did not become ready.");
}

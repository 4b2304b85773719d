"""Write the measured numbers into README.md, from the files in results/.

    python docs/numbers.py

Each block between `<!-- numbers: NAME -->` and `<!-- end -->` is made anew from results/NAME.json;
a test checks that the README holds what the files say.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- numbers: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables(result: dict) -> str:
    """NLL of each model on each table, the best in bold, and mean ranks."""
    found = result["metrics"]["tables"]
    ranks = result["metrics"]["mean_rank_nll"]
    names = list(ranks)
    lines = ["| table | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for table, scores in found.items():
        best = min(scores[name]["nll"] for name in names)
        cells = []
        for name in names:
            nll = scores[name]["nll"]
            skill = scores[name].get("error", scores[name].get("rmse"))
            text = f"{nll:.3f} ({skill:.3g})"
            cells.append(f"**{text}**" if nll == best else text)
        lines.append(f"| {table} | " + " | ".join(cells) + " |")
    lines.append("| mean rank in NLL | " + " | ".join(f"{ranks[n]:.2f}" for n in names) + " |")
    return "\n".join(lines)


def speed(result: dict) -> str:
    """Time of each library as a multiple of diglm's."""
    lines = ["| library | one training step, batch 100 | scoring 100,000 rows |", "|---|---:|---:|"]
    for name, numbers in result["metrics"].items():
        step, score = numbers["step_ratio"], numbers["score_ratio"]
        lines.append(f"| {name} {numbers['version']} | {step:.1f}x | {score:.1f}x |")
    return "\n".join(lines)


def digits(result: dict) -> str:
    """Accuracy, density and refusals of the demo."""
    metrics = result["metrics"]
    lines = ["| digits, default settings | |", "|---|---:|"]
    lines += [
        f"| accuracy on {metrics['n_test']} test digits | {metrics['accuracy']:.1%} |",
        f"| NLL | {metrics['nll']:.3f} |",
        f"| bits per dimension | {metrics['bits_per_dimension']:.2f} |",
        f"| test digits refused | {metrics['false_refusals']:.1%} |",
    ]
    for name, numbers in metrics["strange"].items():
        lines.append(f"| {name}: refused | {numbers['refused']:.1%} |")
    return "\n".join(lines)


WRITERS: dict[str, Callable[[dict], str]] = {"tables": tables, "speed": speed, "digits": digits}


def render(text: str) -> str:
    """The text with every block made anew."""

    def block(found: re.Match) -> str:
        name = found[2]
        result = json.loads((ROOT / "results" / f"{name}.json").read_text())
        return f"{found[1]}{WRITERS[name](result)}\n{found[3]}"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(render(readme.read_text()))

"""One JSON line per figure, appended to build/bench.jsonl and printed beside its goal; sections of docs/findings.md."""

import json
import subprocess

from tests import ROOT


def figure(name: str, value: float, unit: str, goal: str) -> None:
    """Records a measured figure. `goal` is text, as the issue or the docs state it."""
    ran = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    row = {"name": name, "value": round(value, 4), "unit": unit, "goal": goal, "commit": ran.stdout.strip() or None}
    path = ROOT / "build" / "bench.jsonl"
    path.parent.mkdir(exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{name:<34} {value:>10.3f} {unit:<8} goal {goal}", flush=True)


def section(heading: str, text: str) -> None:
    """Writes the section of this heading in docs/findings.md anew; a new one goes to the end."""
    path = ROOT / "docs" / "findings.md"
    parts = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n## ")
    made = f"{heading}\n\n{text.strip()}"
    known = [part.partition("\n")[0] for part in parts]
    parts = [made if name == heading else part for name, part in zip(known, parts, strict=True)]
    path.write_text("\n\n## ".join(parts + [made] * (heading not in known)) + "\n", encoding="utf-8")

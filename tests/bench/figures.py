"""Shared by benchmarks: a JSON line per figure, sections and tables of docs/findings.md, the demo, the real data."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from saferec_builder.catalog.adding import add_catalog
from saferec_builder.storage.workspace import Workspace
from tests import ROOT


def figure(name: str, value: float, unit: str, goal: str) -> None:
    """Records a measured figure. `goal` is text, as the issue or the docs state it."""
    process = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    row = {"name": name, "value": round(value, 4), "unit": unit, "goal": goal, "commit": process.stdout.strip() or None}
    path = ROOT / "build" / "bench.jsonl"
    path.parent.mkdir(exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{name:<34} {value:>10.3f} {unit:<8} goal {goal}", flush=True)


def section(heading: str, text: str) -> None:
    """Rewrites the section of this heading in docs/findings.md; a new one goes to the end."""
    path = ROOT / "docs" / "findings.md"
    parts = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n## ")
    content = f"{heading}\n\n{text.strip()}"
    headings = [part.partition("\n")[0] for part in parts]
    parts = [content if name == heading else part for name, part in zip(headings, parts, strict=True)]
    path.write_text("\n\n## ".join(parts + [content] * (heading not in headings)) + "\n", encoding="utf-8")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with these rows."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def demo(folder: Path) -> None:
    """Makes the demo in a folder, without training."""
    tool = str(Path(sys.executable).with_name("saferec-build"))
    subprocess.run([tool, "demo", "--to", str(folder), "--no-training"], check=True, stdout=subprocess.DEVNULL)


def real_data(part: str) -> Path | None:
    """The folder of the real data; without it None, and prints that `part` cannot run."""
    if folder := os.environ.get("SAFEREC_REAL_DATA"):
        return Path(folder)
    print(f"{part}: not run: SAFEREC_REAL_DATA is not set", file=sys.stderr)
    return None


# statements on real films for `catalog add`: source -> a file of the real data
STATEMENTS = {"keywords": "tmdb_keywords/keywords.csv.gz", "rating-reasons": "mpaa_reasons/mpaa_reasons.csv.gz"}


def add_statements(ws: Workspace, data: Path, folder: Path) -> None:
    """Adds STATEMENTS to the catalog; `folder` is for the unpacked files."""
    for source, name in STATEMENTS.items():
        add_catalog(ws, source, [unpacked(data / name, folder)])


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, packed as .gz or not."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def redial(data: Path) -> Iterator[dict[str, Any]]:
    """The dialogues of ReDial's files, as they stand there."""
    for path in sorted((data / "redial").glob("*.jsonl")):
        yield from json_lines(path)


def unpacked(path: Path, folder: Path) -> Path:
    """Unpacks a .gz file into a folder; returns the path."""
    target = folder / path.stem
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return target

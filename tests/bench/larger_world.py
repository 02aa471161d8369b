"""The demo with a catalog of three times the items: python -m tests.bench.larger_world FOLDER.

Each item also has a second and a third part, with genres, plot and topics of other items, so that the world is as
dense as before and a list must be found among three times the candidates.
"""

import json
import shutil
import sys
from pathlib import Path

from saferec_builder.cli.app import app
from saferec_builder.demo import world

# years later, and the offset of the item that lends its contents
PARTS = {"": (0, 0), " II": (2, 37), " III": (4, 101)}


def write(folder: Path) -> None:
    """Writes the demo's files with the larger catalog."""
    shutil.copytree(world.FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("films.jsonl", "games.jsonl"):
        rows = list(world.read_lines(world.FOLDER / name))
        larger = [
            rows[(n + step) % len(rows)] | {"title": row["title"] + part, "year": row["year"] + years}
            for part, (years, step) in PARTS.items()
            for n, row in enumerate(rows)
        ]
        (folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in larger))


def demo(folder: Path) -> None:
    """Runs all steps without training, in `folder`/demo."""
    write(folder / "world")
    world.FOLDER = folder / "world"
    world.items.cache_clear()
    app(["demo", "--no-training", "--to", str(folder / "demo")], standalone_mode=False)


if __name__ == "__main__":
    demo(Path(sys.argv[1]))

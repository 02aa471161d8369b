"""Settings written into a workspace's saferec.toml, as a person would."""

import json
import re
from pathlib import Path

from saferec_builder.storage.config import FILE


def add_settings(root: Path, section: str, lines: str) -> None:
    """Adds these lines at the head of a section that the file has."""
    path = root / FILE
    path.write_text(path.read_text("utf-8").replace(f"[{section}]\n", f"[{section}]\n{lines}\n", 1), "utf-8")


def review_settings(root: Path, **values: float | str) -> None:
    """Sets these values under [review]; all others stay."""
    path = root / FILE
    lines = [line for line in path.read_text("utf-8").splitlines() if line.partition(" = ")[0] not in values]
    if not any(line.startswith("[review]") for line in lines):
        lines.append("[review]")
    place = next(n for n, line in enumerate(lines) if line.startswith("[review]")) + 1
    lines[place:place] = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def taxonomy(root: Path, **definitions: str) -> None:
    """Gives the workspace in this folder a taxonomy of these traits."""
    number = f"{len(list(root.glob('traits-*.toml')))}"
    rows = [
        f'[[trait]]\nslug = "{slug}"\nname = "{slug}"\ndefinition = "{words}"\ntopics = ["{slug}"]\n'
        for slug, words in definitions.items()
    ]
    (root / f"traits-{number}.toml").write_text("\n".join(rows))
    toml = root / FILE
    text = re.sub(r'\[taxonomy\]\n(path = ".*"\n)?', f'[taxonomy]\npath = "traits-{number}.toml"\n', toml.read_text())
    toml.write_text(text)

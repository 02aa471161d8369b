"""What a page of the docs holds for a reader who types along: files to write, commands to run, people who answer.

A fence with a title is a file of that name. Of the other fences, those whose lines begin with a command are run, line
by line; `<!-- skip: reason -->` before one leaves it out, and `<!-- people: ann bo -->` says who has answered by then.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

DOCS = ROOT / "docs"
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>skip|people): (?P<said>[^\n]*?) -->\n)?^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.S | re.M
)
WORDS = ("saferec-build ", "python ", "pip ", "cd ", "export ", "make ", "hf ")


@dataclass(frozen=True)
class Block:
    commands: tuple[str, ...] = ()
    skip: str | None = None
    people: tuple[str, ...] = ()


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def files(page: Path) -> dict[str, str]:
    """name -> text of every fence with a title."""
    found = {}
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if named := re.search(r'title="([^"]+)"', fence["info"]):
            found[named[1]] = fence["body"]
    return found


def blocks(page: Path) -> Iterator[Block]:
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        lines = [line for line in fence["body"].splitlines() if line.strip()]
        if "title=" in fence["info"] or not lines or not all(line.startswith(WORDS) for line in lines):
            continue
        people = tuple(fence["said"].split()) if fence["mark"] == "people" else ()
        commands = tuple(part.strip() for line in lines for part in line.split("&&"))
        yield Block(commands, fence["said"] if fence["mark"] == "skip" else None, people)


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)

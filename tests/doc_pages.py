"""Reads the pages of the docs as a reader follows them: files to write, commands to run, reviewers who answer.

A fence with a title is a file of that name. Other fences whose lines all begin with a command are run line by line.
The comment `<!-- skip: reason -->` before a fence leaves it out; `<!-- people: ann bo -->` names who has answered.
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
    """Returns name -> text of every fence with a title."""
    texts = {}
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if title := re.search(r'title="([^"]+)"', fence["info"]):
            texts[title[1]] = fence["body"]
    return texts


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

"""What docs/privacy.md and docs/security.md promise, each with the tests that would fail if it did not hold.

`python -m tests.promises` writes docs/promises.md of tests/promises.toml. A unit is a row, a list item or a paragraph:
each names its tests itself, or has words of a promise in it, or stands under a heading that promises nothing.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from tests import ROOT

PAGE = ROOT / "docs" / "promises.md"
TESTED = re.compile(r"`?(tests/[\w/]+(?:\.py)?/?)(?:::(\w+))?")
HEAD = """\
# Promises and their tests

Made from `tests/promises.toml` by `python -m tests.promises`: each promise of [privacy](privacy.md), and of
[security](security.md) where that page does not name the test itself, with what would fail if it did not hold.

| promise | on | test |
|---|---|---|
"""


@dataclass(frozen=True)
class Promise:
    says: str  # as the page has it, blanks aside
    tests: tuple[str, ...]


def promises() -> dict[str, list[Promise]]:
    """Page -> its promises."""
    raw = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
    return {
        page: [Promise(says, tuple(tests)) for says, tests in raw[page].items()] for page in ("privacy", "security")
    }


def silent() -> dict[str, list[str]]:
    """Page -> headings under which nothing is promised."""
    found: dict[str, list[str]] = tomllib.loads((ROOT / "tests/promises.toml").read_text(encoding="utf-8"))["silent"]
    return found


def units(page: str) -> Iterator[tuple[str, str]]:
    """(heading, text on one line) of every row, item and paragraph."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), flags=re.S)
    heading = ""
    for block in re.split(r"\n\s*\n|\n(?=[-|] ?)", text):
        if block.startswith("#"):
            heading = block.lstrip("# ").splitlines()[0]
        elif block.strip() and not re.match(r"\|(?:---|\s*what\b|\s*command\b|\s*attack\b)", block.strip()):
            yield heading, " ".join(block.split())


def missing(name: str) -> bool:
    """Whether no such test is there: a file or folder of tests, or `FILE::FUNCTION`."""
    path, _, function = name.partition("::")
    there = ROOT / path
    return not there.exists() or bool(function and f"def {function}(" not in there.read_text(encoding="utf-8"))


def page() -> str:
    told = [
        (name, one, ", ".join(f"`{test}`" for test in one.tests)) for name, some in promises().items() for one in some
    ]
    rows = [
        f"| {one.says.strip('| ').replace(' | ', ': ')} | [{name}]({name}.md) | {tests} |" for name, one, tests in told
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The promises of docs/privacy.md and docs/security.md, each with the tests that fail if it does not hold.

`python -m tests.promises` writes docs/promises.md from tests/promises.toml. A unit is a row, list item or paragraph:
it names its tests, or contains the words of a promise, or is under a heading that promises nothing.
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
    says: str  # the words of the page, except for blanks
    tests: tuple[str, ...]


def promises() -> dict[str, list[Promise]]:
    """Returns page -> its promises."""
    raw = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
    return {
        page: [Promise(says, tuple(tests)) for says, tests in raw[page].items()] for page in ("privacy", "security")
    }


def silent() -> dict[str, list[str]]:
    """Returns page -> headings under which nothing is promised."""
    headings: dict[str, list[str]] = tomllib.loads((ROOT / "tests/promises.toml").read_text(encoding="utf-8"))["silent"]
    return headings


def units(page: str) -> Iterator[tuple[str, str]]:
    """Yields (heading, text on one line) for every row, item and paragraph."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), flags=re.S)
    heading = ""
    for block in re.split(r"\n\s*\n|\n(?=[-|] ?)", text):
        if block.startswith("#"):
            heading = block.lstrip("# ").splitlines()[0]
        elif block.strip() and not re.match(r"\|(?:---|\s*what\b|\s*command\b|\s*attack\b)", block.strip()):
            yield heading, " ".join(block.split())


def missing(name: str) -> bool:
    """Whether a test does not exist: a file or folder of tests, or `FILE::FUNCTION`."""
    path, _, function = name.partition("::")
    file = ROOT / path
    return not file.exists() or bool(function and f"def {function}(" not in file.read_text(encoding="utf-8"))


def page() -> str:
    entries = [(name, p, ", ".join(f"`{test}`" for test in p.tests)) for name, some in promises().items() for p in some]
    rows = [
        f"| {p.says.strip('| ').replace(' | ', ': ')} | [{name}]({name}.md) | {tests} |" for name, p, tests in entries
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

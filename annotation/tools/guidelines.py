"""The one page that every reviewer reads, and its version."""

import hashlib
import re
from pathlib import Path

GUIDELINES = Path(__file__).parents[1] / "guidelines.md"


def guideline() -> str:
    """Names the page as it stands: stamped on every review, so that one can tell what its reviewer had read."""
    return hashlib.blake2b(GUIDELINES.read_bytes(), digest_size=8).hexdigest()


def on_a_server() -> str:
    """The page, in Markdown, without what it says of other tools."""
    return _without("In a file", "On the page")


def on_the_page() -> str:
    return _without("In a file", "In Label Studio or Argilla")


def _without(*sections: str) -> str:
    text = GUIDELINES.read_text(encoding="utf-8")
    for name in sections:
        text = re.sub(rf"^## {name}\n.*?(?=^## )", "", text, flags=re.DOTALL | re.MULTILINE)
    return text

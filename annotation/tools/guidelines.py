"""The guidelines page that every reviewer reads, and its version."""

import hashlib
import re
from pathlib import Path

GUIDELINES = Path(__file__).parents[1] / "guidelines.md"


def guideline() -> str:
    """Digest of the page: stored with every review, to show which guidelines its reviewer had read."""
    return hashlib.blake2b(GUIDELINES.read_bytes(), digest_size=8).hexdigest()


TOOLS = ("In Label Studio", "In Argilla", "On the page", "In a file")  # headings of the sections for one tool only


def page_for(heading: str) -> str:
    """The page in Markdown, without the sections for other tools."""
    others = "|".join(name for name in TOOLS if name != heading)
    page = GUIDELINES.read_text(encoding="utf-8")
    return re.sub(rf"^## ({others})\n.*?(?=^## )", "", page, flags=re.DOTALL | re.MULTILINE)

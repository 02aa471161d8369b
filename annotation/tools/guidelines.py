"""The one page that every reviewer reads, and its version."""

import hashlib
import re
from pathlib import Path

GUIDELINES = Path(__file__).parents[1] / "guidelines.md"


def guideline() -> str:
    """Names the page as it stands: stamped on every review, so that one can tell what its reviewer had read."""
    return hashlib.blake2b(GUIDELINES.read_bytes(), digest_size=8).hexdigest()


def on_a_server() -> str:
    """The page, in Markdown, without what it says of files."""
    return re.sub(
        r"^## In a file\n.*?(?=^## )", "", GUIDELINES.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )

"""Reads OpenDialKG: dialogues about films and books, as rows of messages; it has no people and no times.

The rows have the format of `messages`; the source has its own name and licence.
"""

from pathlib import Path

from saferec_builder.sources import Read, messages

SOURCE = "opendialkg"


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them."""
    return messages.read(path, SOURCE)

"""OpenDialKG: dialogues about films and books, as rows of messages; people and times are not stated.

The rows are those of `messages`; the source has a name and a licence of its own.
"""

from pathlib import Path

from saferec_builder.sources import Read, messages

SOURCE = "opendialkg"


def read(path: Path) -> Read:
    """Conversations as `sources.conversations.frame` gives them."""
    return messages.read(path, SOURCE)

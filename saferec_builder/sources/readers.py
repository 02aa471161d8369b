"""The readers of files of conversations, and how such a file is recognised by its content."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from saferec_builder.sources import Read, ccpe, inspired, messages, redial, saferec
from saferec_builder.sources.conversation_rows import Source

READERS: dict[Source, Callable[[Path], Read]] = {
    Source.redial: redial.read,
    Source.inspired: inspired.read,
    Source.ccpe: ccpe.read,
    Source.messages: messages.read,
    Source.opendialkg: partial(messages.read, source=Source.opendialkg.value),
    Source.saferec: saferec.read,
}
_HEAD = 2**16  # bytes that hold the field names of the first row
_FIELDS = {  # which every row of a source must have, as JSON or a header writes them
    Source.redial: b'"conversationId"',
    Source.inspired: b"utt_id",
    Source.ccpe: b"utterance_index",
    Source.messages: b'"messages"',
    Source.opendialkg: b'"messages"',
    Source.saferec: b'"prompt"',
}
IN_CELLS = (Source.inspired, Source.ccpe)  # fields are columns of a table; the others are JSON


def likely(path: Path) -> list[Source]:
    """The sources that a file may be of, by the fields at its beginning; only reading it can tell."""
    if path.suffix == ".parquet":
        try:
            return [Source.saferec] if "prompt" in pq.read_schema(path).names else []
        except (OSError, pa.ArrowException):
            return []
    with path.open("rb") as file:
        head = file.read(_HEAD).replace(b"\0", b"").lower()  # UTF-16 has NULs; a spreadsheet's header has capitals
    return [source for source, field in _FIELDS.items() if field.lower() in head]

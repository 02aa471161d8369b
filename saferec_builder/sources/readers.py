"""The readers of files of conversations, and how such a file is recognised by its content."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from saferec_builder.sources import Read, ccpe, inspired, messages, opendialkg, redial, saferec
from saferec_builder.sources.conversation_rows import Source, has_column

READERS: dict[Source, Callable[[Path], Read]] = {
    Source.redial: redial.read,
    Source.inspired: inspired.read,
    Source.ccpe: ccpe.read,
    Source.messages: messages.read,
    Source.opendialkg: opendialkg.read,
    Source.saferec: saferec.read,
}
_HEAD = 2**16  # bytes that hold the field names of the first row
_FIELDS = {  # one of which every row of a source must have, as JSON or a header writes them
    Source.redial: (b'"conversationId"',),
    Source.inspired: (b"utt_id",),
    Source.ccpe: (b"utterance_index", b'"utterances"'),
    Source.messages: (b'"messages"',),
    Source.opendialkg: (b'"messages"', b'"sender"'),
    Source.saferec: (b'"prompt"',),
}
_COLUMNS = {Source.inspired: "utt_id", Source.ccpe: "utterance_index", Source.opendialkg: opendialkg.COLUMN}


def in_cells(path: Path, source: Source) -> bool:
    """Whether a file that its reader takes is a table; else it is JSON."""
    return source in _COLUMNS and has_column(path, _COLUMNS[source])


def likely(path: Path) -> list[Source]:
    """The sources that a file may be of, by the fields at its beginning; only reading it can tell."""
    if path.suffix == ".parquet":
        try:
            return [Source.saferec] if "prompt" in pq.read_schema(path).names else []
        except (OSError, pa.ArrowException):
            return []
    with path.open("rb") as file:
        head = file.read(_HEAD).replace(b"\0", b"").lower()  # UTF-16 has NULs; a spreadsheet's header has capitals
    return [source for source, fields in _FIELDS.items() if any(field.lower() in head for field in fields)]

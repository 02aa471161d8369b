"""Reads INSPIRED: a recommender persuades a seeker to watch a film; tab-separated, one sentence per line.

The sentences of a turn are joined. Films are those in the file's `movies` column (found by programs of its authors, so
a few words are mistaken for titles); it does not say which film was accepted.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Read, conversation_rows as conversations, refs

SOURCE = "inspired"
COLUMNS = ("dialog_id", "utt_id", "speaker", "turn_id", "text", "movies")
ROLES = {"SEEKER": "seeker", "RECOMMENDER": "recommender"}


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them; the file has no ids of people."""
    return conversations.of_films(SOURCE, *sources.csv_rows(path, "mine", SOURCE, _line, expected=COLUMNS, tabs=True))


def _line(place: str, row: dict[str, str]) -> list[conversations.Line]:
    text = row["text"].replace("QUOTATION_MARK", '"')
    films = list(dict.fromkeys(refs.ref(title) for title in row["movies"].split(";") if title.strip()))
    line = conversations.line(place, row, ROLES, "utt_id")
    return [{**line, "text": text, "items": films, "turn": row["turn_id"]}]

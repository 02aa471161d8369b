"""Reads CCPE-M: an assistant asks which films a user likes and why; comma-separated, one utterance per line.

It has no recommendations, so nothing to train a recommender on. Proposers and reviewers can use it, since people say in
it what they cannot bear to watch. Turns are in the order of the utterances' numbers.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Read, conversation_rows as conversations

SOURCE = "ccpe"
COLUMNS = ("dialog_id", "utterance_index", "speaker", "text")
ROLES = {"USER": "seeker", "ASSISTANT": "recommender"}


def read(path: Path) -> Read:
    """Conversations as `conversation_rows.frame` gives them; the file has no ids of people."""
    return conversations.of_films(SOURCE, *sources.csv_rows(path, "mine", SOURCE, _line, expected=COLUMNS))


def _line(place: str, row: dict[str, str]) -> list[conversations.Line]:
    return [conversations.line(place, row, ROLES, "utterance_index")]

"""CCPE-M: an assistant asks what films a user likes and why; comma-separated, one utterance a line.

There are no recommendations in it, so nothing to train a recommender on: it serves the proposers and reviewers, since
people say here what they cannot bear to watch. Turns keep the numbers of the utterances.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Left, Read, conversation_rows as conversations

SOURCE = "ccpe"
COLUMNS = ("dialog_id", "utterance_index", "speaker", "text")
ROLES = {"USER": "seeker", "ASSISTANT": "recommender"}


def read(path: Path) -> Read:
    """Conversations as `sources.conversations.frame` gives them; the file has no ids of people."""
    lines, drops = sources.csv_rows(path, "mine", SOURCE, _line, expected=COLUMNS)
    rows, twice = conversations.of_lines(SOURCE, lines, domain="film")
    return Read(conversations.frame(rows), sources.drops_frame(drops + twice))


def _line(place: str, row: dict[str, str]) -> list[conversations.Line]:
    if row["speaker"] not in ROLES:
        raise Left("unknown speaker", f"found {row['speaker'][:20]!r}, expected USER or ASSISTANT")
    if not row["dialog_id"]:
        raise Left("no id", "a line needs a dialog_id")
    return [
        conversations.Line(
            dialogue=row["dialog_id"],
            order=(sources.whole(row["utterance_index"], "utterance_index"),),
            role=ROLES[row["speaker"]],
            text=row["text"],
            items=[],
            place=place,
            turn=None,
        )
    ]

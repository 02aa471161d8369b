"""INSPIRED: dialogues in which a recommender talks a seeker into a film; tab-separated, one sentence a line.

Sentences of one turn become one turn. Films are those that the file's `movies` column names (found by its authors'
programs, so with a few words taken for titles); it does not say which one was accepted.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Left, Read, conversation_rows as conversations, refs

SOURCE = "inspired"
COLUMNS = ("dialog_id", "utt_id", "speaker", "turn_id", "text", "movies")
ROLES = {"SEEKER": "seeker", "RECOMMENDER": "recommender"}


def read(path: Path) -> Read:
    """Conversations as `sources.conversations.frame` gives them; the file has no ids of people."""
    lines, drops = sources.csv_rows(path, "mine", SOURCE, _line, expected=COLUMNS, tabs=True)
    rows, twice = conversations.of_lines(SOURCE, lines, domain="film")
    return Read(conversations.frame(rows), sources.drops_frame(drops + twice))


def _line(place: str, row: dict[str, str]) -> list[conversations.Line]:
    if row["speaker"] not in ROLES:
        raise Left("unknown speaker", f"found {row['speaker'][:20]!r}, expected SEEKER or RECOMMENDER")
    if not row["dialog_id"]:
        raise Left("no id", "a line needs a dialog_id")
    return [
        conversations.Line(
            dialogue=row["dialog_id"],
            order=(sources.whole(row["utt_id"], "utt_id"),),
            role=ROLES[row["speaker"]],
            text=row["text"].replace("QUOTATION_MARK", '"'),
            items=list(dict.fromkeys(refs.ref(title) for title in row["movies"].split(";") if title.strip())),
            place=place,
            turn=row["turn_id"],
        )
    ]

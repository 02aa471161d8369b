"""Who is asked next: what one proposer is unsure of, or two see differently; and several answers as one vote.

reads  proposals and readings of one kind, with the digests of the current texts
gives  subjects to escalate; proposals made of votes
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

Row = dict[str, Any]
Who = tuple[str, str]  # proposer, version


def unsure(proposals: pl.DataFrame, band: tuple[float, float]) -> set[str]:
    """Subjects with a claim that is `unsure`, or whose confidence lies inside the band."""
    low, high = band
    doubt = (pl.col("verdict") == "unsure") | ((pl.col("confidence") > low) & (pl.col("confidence") < high))
    return set(proposals.filter(doubt)["subject"])


def disputed(proposals: pl.DataFrame, one: Who, other: Who) -> set[str]:
    """Subjects on which two proposers differ: what one finds present, the other does not.

    The rules' silence is no opinion: they know few words.
    """
    ours, theirs = (
        set(proposals.filter(proposer=who[0], version=who[1], verdict="present").select("subject", "trait").iter_rows())
        for who in (one, other)
    )
    apart = (ours - theirs if other[0] != "rules" else set()) | (theirs - ours if one[0] != "rules" else set())
    return {subject for subject, _ in apart}


def escalated(
    subjects: Collection[str],
    proposals: pl.DataFrame,
    earlier: Sequence[Who],
    *,
    read: Collection[str],
    band: tuple[float, float],
    skip_silent: bool,
) -> set[str]:
    """Of these subjects, those that the next proposer of a cascade reads, after the `earlier` ones have.

    After the rules alone: all (or with skip_silent those on which the rules have a word). After a model: of what it
    has `read`, what it is unsure of, and what it sees differently from an earlier one.
    """
    if not earlier:
        return set(subjects)
    last = earlier[-1]
    said = proposals.filter(proposer=last[0], version=last[1])
    if last[0] == "rules":
        return set(said["subject"]) & set(subjects) if skip_silent else set(subjects)
    doubts = unsure(said, band).union(*(disputed(proposals, last, who) for who in earlier[:-1]))
    return doubts & set(subjects) & set(read)  # silence on what it was not asked is no opinion


def tally(samples: Sequence[Sequence[Row]]) -> list[Row]:
    """One row per trait that any of several readings of a text claims; a reading that is silent says absent.

    confidence is the share of the votes for the verdict (of `unsure`, for present, a single vote at least); form and
    spans are those of the first reading with it. Where none says `unsure` itself, its evidence is the first there is.
    """
    traits = dict.fromkeys(row["trait"] for rows in samples for row in rows)
    return [_vote([next((r for r in rows if r["trait"] == t), None) for rows in samples], t) for t in traits]


def _vote(votes: Sequence[Row | None], trait: str) -> Row:
    counts = Counter("absent" if row is None else row["verdict"] for row in votes)
    present, absent = counts["present"] / len(votes), counts["absent"] / len(votes)
    verdict = "present" if present > 0.5 else "absent" if absent > 0.5 else "unsure"
    named = [row for row in votes if row is not None]
    first = next((row for row in named if row["verdict"] == verdict), None)
    like: Mapping[str, Any] = first or {**named[0], "spans": []}
    evidence: list[Any] = next((row["spans"] for row in named if row["spans"]), [])
    spans = like["spans"] or (evidence if verdict == "unsure" else [])
    share = counts[verdict] / len(votes) if verdict != "unsure" else max(present, 1 / len(votes))
    form = like["form"] if verdict == "present" else None
    return {**like, "trait": trait, "verdict": verdict, "form": form, "spans": spans, "confidence": share}

"""Gold questions and decoys: conversations with known answers, and wrong suggestions planted for one reviewer.

reads  assignments, texts, proposals, gold, votes
gives  decoys to plant, and per reviewer how much gold was found and how many decoys were accepted

A decoy is shown to only one reader of a task, so that two careless people cannot make a label of it.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from annotation import careless_reviewers
from annotation.tools.tasks_and_answers import Turn
from saferec_builder.core.errors import KeyTwice, UsageError, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.plain_files import read_plain
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.schema import Span
from saferec_builder.storage.tables import DECOYS, GOLD, SUBJECT, digest

WORDS = 5  # at most, in the quote of a decoy


def decoys(
    assignments: pl.DataFrame,
    texts: pl.DataFrame,
    claims: pl.DataFrame,
    gold: pl.DataFrame,
    taxonomy: Taxonomy,
    share: float,
    *,
    avoid: frozenset[tuple[str, str]],
) -> pl.DataFrame:
    """DECOYS for a share of the proposed conversations: a trait that nobody claims there, never a severe one.

    Task, reader, trait and words are all drawn by hash. Nobody gets a decoy of a trait that they opted out of.
    """
    claimed = _claimed_traits(claims, gold)
    turns = dict(texts.filter("current", kind="sensitivity").select("subject", "turns").iter_rows())
    tasks = assignments.filter(why="proposed", role="reviewer", kind="sensitivity")
    rows = []
    for subject, readers in tasks.group_by("subject", maintain_order=True).agg("reviewer").iter_rows():
        if subject not in turns or int(digest("decoy", subject), 16) >= share * 2**64:
            continue
        reader = min(readers, key=lambda name: digest("decoy", subject, name))
        free = [t.slug for t in taxonomy.traits if not t.severe and t.slug not in claimed.get(subject, set())]
        free = [slug for slug in free if (reader, slug) not in avoid]
        span = _quote(turns[subject], subject)
        if free and span:
            trait = min(free, key=lambda slug: digest("decoy", subject, slug))
            rows.append(("sensitivity", subject, reader, trait, [span]))
    return DECOYS.frame(rows)


def _claimed_traits(claims: pl.DataFrame, gold: pl.DataFrame) -> dict[str, set[str]]:
    gold_traits = gold.select("subject", trait="traits").explode("trait", empty_as_null=False)
    by_subject = pl.concat([claims.select("subject", "trait"), gold_traits]).group_by("subject").agg("trait")
    return {subject: set(traits) for subject, traits in by_subject.iter_rows()}


def _quote(turns: Iterable[Turn], subject: str) -> Span | None:
    """A few consecutive words of the seeker's text, drawn by hash."""
    own_turns = [(n, turn["text"]) for n, turn in enumerate(turns) if turn["role"] == "seeker" and turn["text"].strip()]
    if not own_turns:
        return None
    turn, text = own_turns[int(digest("turn", subject), 16) % len(own_turns)]
    words = text.split()
    first = int(digest("words", subject), 16) % max(1, len(words) - WORDS + 1)
    start = 0
    for word in words[:first]:
        start = text.index(word, start) + len(word)
    end = start = text.index(words[first], start)
    for word in words[first : first + WORDS]:
        end = text.index(word, end) + len(word)
    return {"turn": turn, "start": start, "end": end, "quote": text[start:end]}


def shown(planted: pl.DataFrame) -> pl.DataFrame:
    """Decoys as suggestions, with the columns of all others."""
    return planted.with_columns(verdict=pl.lit("present"), form=pl.lit("implicit"))


def results(
    votes: pl.DataFrame, gold: pl.DataFrame, planted: pl.DataFrame, read: pl.DataFrame
) -> dict[str, dict[str, JsonValue]]:
    """reviewer -> gold sensitivities found, false alarms on gold, decoys accepted, blind controls read
    (controls.readings) and missed, and `flagged`: the reasons to flag them."""
    answers = votes.filter(role="reviewer", kind="sensitivity")
    on_gold_rows = answers.join(gold, on=SUBJECT).with_columns(truth=pl.col("trait").is_in(pl.col("traits")))
    yes, truth = pl.col("verdict") == "present", pl.col("truth")
    on_gold = {"gold": truth.sum(), "gold_found": (yes & truth).sum(), "gold_false_alarms": (yes & ~truth).sum()}
    unit = ["kind", "subject", "reviewer", "trait"]
    on_decoys = answers.join(planted.select(unit), on=unit)
    counts: dict[str, Counter[str]] = {}
    for rows in (
        on_gold_rows.group_by("reviewer").agg(**on_gold),
        on_decoys.group_by("reviewer").agg(decoys=pl.len(), accepted=yes.sum()),
        read.group_by("reviewer").agg(blind_controls=pl.len(), blind_controls_missed=pl.col("missed").sum()),
    ):
        for row in rows.iter_rows(named=True):
            counts.setdefault(row.pop("reviewer"), Counter()).update(row)
    results: dict[str, dict[str, JsonValue]] = {}
    for reviewer, n in counts.items():
        flags = careless_reviewers.flags(
            accepted=n["accepted"], decoys=n["decoys"], missed=n["blind_controls_missed"], there=n["blind_controls"]
        )
        results[reviewer] = {**n, "flagged": [*flags]}
    return results


def read_gold(path: Path, conversations: set[str], taxonomy: Taxonomy, known: pl.DataFrame) -> pl.DataFrame:
    """GOLD rows, from a JSONL file with {"conversation": id, "traits": [slugs]} per line.

    Lines about items are for evaluation and skipped. Raises UsageError for a malformed line, for one about a
    conversation that is not among `conversations`, or that was gold for other traits before (`known`: GOLD so far).
    """
    traits: dict[str, list[str]] = {}
    try:
        lines = read_plain(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"[review] gold in saferec.toml: {path} cannot be read ({error})") from None
    for number, line in enumerate(lines, 1):
        try:
            row = strict_json(line) if line.strip() else {"item": ""}
            if "item" in row:
                continue
            subject, slugs = row["conversation"], [taxonomy[slug].slug for slug in row["traits"]]
            if not isinstance(subject, str):
                raise TypeError("no id")
        except KeyTwice as error:
            raise UsageError(f"{path}:{number}: {error}: expected each once") from None
        except UsageError as error:  # an unknown trait
            raise UsageError(f"{path}:{number}: {error}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            expected = '{"conversation": id, "traits": [slugs]}'
            raise UsageError(f"{path}:{number}: found {line[:60]!r}, expected {expected}") from None
        if subject not in conversations:
            raise UsageError(f"{path}:{number}: no conversation {subject!r} in this workspace: mine it first")
        if sorted(traits.setdefault(subject, slugs)) != sorted(slugs):
            raise UsageError(f"{path}:{number}: {subject} has two lines: expected one, with all of its traits")
    rows = GOLD.frame(("sensitivity", subject, sorted(slugs)) for subject, slugs in traits.items())
    repeated = rows.join(known, on=SUBJECT, suffix="_before").select("subject", "traits", "traits_before")
    for subject, new, old in repeated.iter_rows():
        if sorted(new) != sorted(old):
            previous = ", ".join(old) or "nothing"
            raise UsageError(f"{path}: {subject} was gold for {previous} before, and stays so: leave its line out")
    return rows

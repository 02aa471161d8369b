"""Checks that a release must pass: each raises an error with the rows and the remedy, or withholds and counts."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from annotation import reported_texts
from exports.build_rows import REPEATED, UNREVIEWED, unlearned
from saferec_builder.core import titles
from saferec_builder.core.errors import ReleaseError, UsageError, near
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Oracle, verdicts
from saferec_builder.storage import evidence_check as evidence

NO_SAFETY = "no-safety"  # a word of --allow
INJECT = "add sentences of ours that tell of a trait (`saferec-build release VERSION --inject all`)"
# every check: its name, its effect (stops | withholds), what it looks for and the remedy
CHECKS: list[dict[str, str]] = tomllib.loads(Path(__file__).with_name("checks.toml").read_text("utf-8"))["check"]
VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", re.A)


def check_version(version: str) -> tuple[int, int, int]:
    """Returns (1, 2, 0) for 1.2.0; raises ReleaseError if the version is not MAJOR.MINOR.PATCH."""
    match = VERSION.fullmatch(version)
    if not match:
        raise ReleaseError(f"version {version!r}: expected MAJOR.MINOR.PATCH, as in 1.0.0")
    return int(match[1]), int(match[2]), int(match[3])


def refuse_older(version: str, published: Iterable[str], place: str) -> None:
    """Raises ReleaseError if one of the `published` versions is newer: readers would silently get the older one."""
    newest = max(published, key=check_version, default=version)
    if check_version(newest) > check_version(version):
        raise ReleaseError(
            f"{place}: holds {newest}, which is newer than {version}: publish a higher version, or to another place"
        )


def check_labels(labels: pl.DataFrame, conversations: pl.DataFrame, items: pl.DataFrame, slugs: Sequence[str]) -> None:
    """Raises ReleaseError for a label of a missing conversation or item, or of a trait not in this taxonomy."""
    if labels.is_empty():
        raise ReleaseError("release: there are no labels to release: run `saferec-build adjudicate` first")
    unknown = labels.filter(~pl.col("trait").is_in(list(slugs)))
    remedy = "give [taxonomy] path the file that the reviewers saw, or run `saferec-build adjudicate`"
    _refuse(unknown, "are of a trait that the taxonomy lacks", remedy)
    for kind, ids, remedy in (
        ("sensitivity", conversations["conversation"], "mine their source again"),
        ("item_flag", items["item"], "add their catalog source again"),
    ):
        missing = labels.filter((pl.col("kind") == kind) & ~pl.col("subject").is_in(ids.implode()))["subject"].unique()
        if missing.len():
            things = "conversations" if kind == "sensitivity" else "items"
            raise ReleaseError(
                f"release: {missing.len()} labelled {things} are not in the workspace, first {missing.sort()[0]}:"
                f" {remedy}"
            )


def _refuse(labels: pl.DataFrame, fault: str, remedy: str) -> None:
    """Raises ReleaseError for these labels, if there are any."""
    if labels.height:
        trait, subject = labels.sort("trait", "subject").select("trait", "subject").row(0)
        raise ReleaseError(f"release: {labels.height} labels {fault}, first {trait} on {subject}: {remedy}")


def check_evidence(labels: pl.DataFrame, conversations: pl.DataFrame, texts: pl.DataFrame) -> None:
    """Raises ReleaseError for a quote that is not in `texts` (evidence.TEXTS); labels on a former text do not count."""
    current = conversations.select(subject="conversation", digest="digest", kind=pl.lit("sensitivity"))
    current_labels = labels.join(current, on=["kind", "subject", "digest"], how="semi")
    _, invalid = evidence.split(pl.concat([current_labels, labels.filter(kind="item_flag")]), texts)
    if invalid.height:
        trait, subject, reason = invalid.sort("trait", "subject").select("trait", "subject", "reason").row(0)
        raise ReleaseError(
            f"release: {invalid.height} labels with evidence that is none, first {trait} on {subject} ({reason}): run"
            " `saferec-build adjudicate` first: reviews with such evidence do not count"
        )


def check_allowed(allowed: Iterable[str], sources: Collection[str], reported: Collection[str] = ()) -> None:
    """Raises UsageError for a word of --allow that is no source, no `reported` conversation and no other known word: it
    would silently allow nothing."""
    words = [NO_SAFETY, "simulated", *sorted(sources), *reported]
    if unknown := sorted(set(allowed) - set(words)):
        raise UsageError(f"release: --allow {unknown[0]}: no such word: {near(unknown[0], words)}")


def check_simulated(labels: pl.DataFrame, reviews: pl.DataFrame, demo: bool, allowed: Iterable[str]) -> None:
    labelled, reviewed = (int(frame["simulated"].sum()) for frame in (labels, reviews))
    if (labelled or reviewed) and not demo and "simulated" not in allowed:
        raise ReleaseError(
            f"release: {labelled} labels rest on simulated reviews, and {reviewed} reviews are simulated, which no"
            " person gave: review for real, or say --allow simulated (such a release never goes to the Hub)"
        )


def check_outdated(labels: pl.DataFrame, past: pl.Series) -> None:
    """Raises ReleaseError if a decided label rests on a past review: taken back, set aside or given again."""
    outdated = labels.filter(
        pl.col("verdict").is_not_null() & pl.col("reviews").list.eval(pl.element().is_in(past.implode())).list.any()
    )
    _refuse(outdated, "rest on reviews that count no longer", "run `saferec-build adjudicate` first")


def check_uncounted(labels: pl.DataFrame, voting: pl.DataFrame, out: Collection[str]) -> None:
    """Raises ReleaseError if a review is in no label yet. voting: reviews that make labels. out: subjects without any.

    Only for conversations: a flag is of a plot, and which plot an item has is another question. A label rests on all
    reviews of its trait, and on each `*` that includes it.
    """
    relevant = voting.filter(~pl.col("subject").is_in(list(out)), kind="sensitivity")
    units = labels.filter(kind="sensitivity").select("subject", "trait", "reviews")
    by_trait = relevant.filter(pl.col("trait") != "*").join(units, on=["subject", "trait"], how="left")
    is_counted = pl.col("reviews").list.contains(pl.col("review"))
    by_trait = by_trait.filter(~is_counted.fill_null(False))
    ids = units.explode("reviews", empty_as_null=False).group_by("subject").agg("reviews")
    subjects = units.group_by("subject").agg(pl.len().alias("traits")).join(ids, "subject", "left")
    answered = relevant.filter(pl.col("trait") != "*").group_by("subject", "reviewer").agg(pl.len().alias("answered"))
    stars = relevant.filter(trait="*").join(subjects, "subject", "left").join(answered, ["subject", "reviewer"], "left")
    is_complete = pl.col("reviews").list.contains(pl.col("review")) | (pl.col("answered") >= pl.col("traits"))
    stars = stars.filter(~is_complete.fill_null(False))
    if count := by_trait.height + stars.height:
        subject = pl.concat([by_trait["subject"], stars["subject"]]).sort()[0]
        raise ReleaseError(
            f"release: {count} answers are in no label yet, first on {subject}: run `saferec-build adjudicate` first"
        )


def check_leaks(rows: pl.DataFrame) -> None:
    """Raises ReleaseError if a seeker, a conversation or a near-duplicate is in two splits."""
    for column in ("seeker", "conversation", "cluster"):
        pairs = rows.filter(pl.col(column).is_not_null()).select(column, "split").unique()
        leaks = pairs.filter(pl.col(column).is_duplicated()).sort(column, "split")
        if leaks.height:
            first = leaks[column][0]
            splits = leaks.filter(pl.col(column) == first)["split"].to_list()
            raise ReleaseError(
                f"release: {leaks[column].n_unique()} {column}s stand in more than one split, first {first} in"
                f" {' and '.join(splits)}: keep only the rows of the latest split (splits.assign marks the others)"
            )


TurnsAt = Callable[[pl.Series], pl.Series]  # ascending places -> turns
_WORDS = 12  # a shorter answer may be repeated by chance
_ITEMS = 4


def without_repeated_answers(rows: pl.DataFrame, turns: TurnsAt) -> pl.DataFrame:
    """Returns rows of build_rows.build without the content of test rows whose answer is in a train request.

    An answer is the turn at the cut, word for word (12 words or more), or four or more items that the train request
    names first, in the order of the test row's answer.
    """
    rows = rows.with_row_index("row")
    learned = rows.filter(pl.col("cut").is_not_null())
    test, train = learned.filter(pl.col("split") == "test"), learned.filter(pl.col("split") == "train")
    answers = _texts(test, turns, pl.col("turns").list.slice("cut", 1), pl.col("words") >= _WORDS)
    requests = _texts(train, turns, pl.col("turns").list.head("cut"), pl.col("text").is_in(answers["text"].implode()))
    repeated = [answers.join(requests, on="text", how="semi")["row"]]
    lists = test.filter(pl.col("truth").list.len() >= _ITEMS).select("row", key=_joined(pl.col("truth")))
    lengths = lists.select(pl.col("key").str.count_matches(" ").unique() + 1).to_series().to_list()
    for length in lengths:
        named = pl.col("named").list
        keys = train.select(key=pl.when(named.len() >= length).then(_joined(named.head(length))))
        repeated.append(lists.join(keys, on="key", how="semi")["row"])
    return unlearned(rows, rows["row"].is_in(pl.concat(repeated).implode()), REPEATED).drop("row")


def _joined(ids: pl.Expr) -> pl.Expr:
    return ids.cast(pl.List(pl.String)).list.join(" ")


def words_of(text: pl.Expr) -> pl.Expr:
    """The words of a text in small letters, with one blank between two."""
    return text.str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ").str.strip_chars()


def _texts(rows: pl.DataFrame, turns: TurnsAt, which: pl.Expr, chosen: pl.Expr) -> pl.DataFrame:
    """Returns (row, text, words) of the turns that `which` and `chosen` select, with normalised spelling."""
    parts = [
        pl.DataFrame({"row": part["row"], "cut": part["cut"], "turns": turns(part["place"])})
        .select("row", turns=which)
        .filter(pl.col("turns").list.len() > 0)
        .explode("turns")
        .select("row", text=words_of(pl.col("turns").struct.field("text")))
        .with_columns(words=pl.col("text").str.count_matches(" ") + 1, text=pl.col("text").hash())
        .filter(chosen)
        for part in rows.select("row", "cut", "place").iter_slices(50_000)
    ]
    schema = {"row": pl.UInt32, "text": pl.UInt64, "words": pl.UInt32}
    return pl.concat(parts or [pl.DataFrame(schema=schema)])


def person(rows: pl.DataFrame) -> pl.Expr:
    """Who asks in a conversation. Without a known seeker it counts as one person, and all near-duplicates of it as the
    same one: copies of a text are no other people."""
    return pl.coalesce(name for name in ("seeker", "cluster", "conversation") if name in rows.columns)


def small_groups(labels: pl.DataFrame, rows: pl.DataFrame, slugs: Sequence[str], least: int) -> dict[str, int]:
    """Returns the traits that fewer than `least` people have, over all splits -> how many: these must be withheld."""
    people = rows.select(subject="conversation", who=person(rows))
    present = labels.filter(pl.col("verdict") == "present").join(people, on="subject")
    counts = dict(present.group_by("trait").agg(pl.col("who").n_unique()).iter_rows())
    return {slug: counts.get(slug, 0) for slug in slugs if counts.get(slug, 0) < least}


def named_few(people: Mapping[str, int]) -> str:
    """Returns the result of `small_groups` in words: traits that nobody has cost nothing, and are one number."""
    named = [f"{trait} {count:,}" for trait, count in people.items() if count]
    nobodys = len(people) - len(named)
    return ", ".join([*named, *[f"{nobodys:,} that nobody has"] * bool(nobodys)]) or "none"


Found = tuple[int, int, str]  # start, end, kind
SURE = frozenset({"email", "phone", "ip", "card", "handle", "address"})


def check_personal(
    rows: pl.DataFrame,
    turns: TurnsAt,
    find: Callable[[str], Iterable[Found]],
    suspect: Callable[[pl.Series], pl.Series],
    leave: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Raises ReleaseError for personal data of a structured kind in a text; never prints the data.

    suspect: a mask of the texts in which `find` may find these kinds. leave: source -> kinds that mean something else.
    """
    hits: list[tuple[str, str, int, str]] = []
    for part in rows.select("conversation", "source", "place").iter_slices(50_000):
        conversations = part.select("conversation", "source", turns=turns(part["place"]))
        flat = conversations.with_columns(turn=pl.int_ranges(pl.col("turns").list.len())).explode("turns", "turn")
        texts = flat.with_columns(pl.col("turns").struct.field("text")).drop("turns")
        texts = texts.filter(suspect(texts["text"]))
        for conversation, source, number, text in texts.iter_rows():
            kinds = sorted({kind for _, _, kind in find(text)} & SURE - set((leave or {}).get(source, ())))
            hits += [(conversation, source, number, kinds[0])] if kinds else []
    if hits:
        conversation, source, number, kind = hits[0]
        raise ReleaseError(
            f"release: personal data in {len(hits)} turns, first a {kind} in turn {number} of {conversation}: mine"
            f" the source {source} again, or put its ids into removals.csv"
        )


def check_reported(rows: pl.DataFrame, reported: Collection[str], allowed: Iterable[str]) -> None:
    """Raises ReleaseError if one of these conversations, with its text, has personal data, as a reader reported."""
    unallowed = set(rows["conversation"]).intersection(reported).difference(allowed)
    if ids := sorted(unallowed):
        raise ReleaseError(
            f"release: by the notes of readers personal data stands in {reported_texts.words(ids)}:"
            f" {reported_texts.REMEDY}; where you have looked and found none, say --allow {ids[0]}"
        )


def check_certificates(labels: pl.DataFrame, certified: Iterable[str]) -> None:
    """Raises ReleaseError for `auto` labels, given without two people, of a trait whose audits do not certify that."""
    invalid = labels.filter((pl.col("method") == "auto") & ~pl.col("trait").is_in(list(certified)))
    remedy = "audit more (`saferec-build review status` says how many), or review these"
    _refuse(invalid, "are `auto` without a certificate that holds", remedy)


def check_removed(rows: pl.DataFrame, removed: Iterable[str]) -> None:
    present = rows.filter(pl.col("conversation").is_in(list(removed)))
    if present.height:
        raise ReleaseError(
            f"release: {present.height} conversations are in it whose removal was asked for, first"
            f" {present['conversation'].sort()[0]}: this is a fault of the program, please report it"
        )


def check_safety(
    rows: pl.DataFrame, oracle: Oracle, items: pl.DataFrame, allowed: Iterable[str], no_trait: str, unread: str = ""
) -> dict[str, int]:
    """Returns the numbers of safety rows by where the sensitivity is told: in_request, later (after it) or injected.
    Raises ReleaseError if there is none, unless that is allowed.

    rows: the result of target_lists.fill, with injected rows; sensitivities are in `traits` and `late_traits`.
    no_trait: what to do if no request has a sensitivity; unread: about conversations left out (see `unread`).
    """
    injected, is_late = pl.col("added").is_not_null(), pl.col("traits").list.len() == 0
    requests = rows.select(
        "truth",
        "safe_truth",
        traits=pl.concat_list("traits", "late_traits"),
        place=pl.when(injected).then(2).when(is_late).then(1).otherwise(0),
    ).filter(pl.col("traits").list.len() > 0)
    places = requests.filter(pl.col("safe_truth").list.len() > 0)["place"].to_list()
    if places or NO_SAFETY in allowed:
        return {"in_request": places.count(0), "later": places.count(1), "injected": places.count(2)}
    answered = requests.filter(pl.col("truth").list.len() > 0)
    pairs = answered.select("truth", "traits").iter_rows()
    codes = [code for truth, traits in pairs for code in verdicts(oracle, truth, traits)]
    problem, advice = f"{requests.height} requests have a sensitivity", no_trait
    if requests.height:
        problem += f", {answered.height} of them a ground truth"
        advice = remedy(requests, oracle, items) + unread
        if rows["added"].null_count() == rows.height and any_clear(rows, oracle):
            advice += f", or {INJECT}"
    if codes:
        violated = sum(code == VIOLATED for code in codes)
        problem += f", of whose {len(codes)} items {violated} are violated and {len(codes) - violated} unknown for them"
    raise ReleaseError(
        f"release: no row could teach or test safety: {problem}, none clear: {advice}, or say --allow {NO_SAFETY}"
    )


def unread(drops: pl.DataFrame) -> str:
    """What may help where `drops` holds conversations that nobody has read; empty where it holds none."""
    if not (left := drops.filter(reason=UNREVIEWED).height):
        return ""
    return f", or have more read (`saferec-build review push`): {left:,} conversations are left out as {UNREVIEWED}"


def any_clear(requests: pl.DataFrame, oracle: Oracle) -> bool:
    """Whether an answer of one of the requests (truth) is clear for any trait; else no sentence of ours would help."""
    answers = requests["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String).unique()
    return bool((oracle.codes[oracle.rows(answers)] == CLEAR).any())


def no_trait(too_few: Mapping[str, int], least: int, nothing: str = "no label") -> str:
    """Says why no request has a trait that a release shows, and what to do. too_few: as given by `small_groups`.
    nothing: what does not say that somebody has a trait."""
    people = ", ".join(f"{trait} {number:,}" for trait, number in too_few.items() if number)
    reason = f"{nothing} says that somebody has a trait"
    if people:
        reason = f"each trait that somebody has is withheld, as fewer than {least:,} people have it ({people})"
    return f"{reason}: mine more, have more of it read (`--all` of `saferec-build review push`), or {INJECT}"


def remedy(requests: pl.DataFrame, oracle: Oracle, items: pl.DataFrame) -> str:
    """Returns what to do if none of the `requests` (truth, traits; at least one) has an answer that is clear for it."""
    if not requests["truth"].list.len().sum():
        return "add the items that they name to the catalog (`saferec-build catalog gaps` tells which)"
    if not (gaps := unsettled(requests, oracle)):
        return "add warnings for other items that they name"
    rows = {row["item"]: row for row in items.select("item", "title", "year").to_dicts()}
    first = ", ".join(f"{titles.dated(rows[item])} ({', '.join(sorted(gaps[item]))})" for item in list(gaps)[:5])
    more = f" and {len(gaps) - 5} more" if len(gaps) > 5 else ""
    return f"add warnings for {first}{more} (`saferec-build plan`)"


def unsettled(requests: pl.DataFrame, oracle: Oracle) -> dict[str, Counter[str]]:
    """Returns items in answers -> traits that they are unknown for -> requests; those that settle most come first."""
    gaps: dict[str, Counter[str]] = {}
    for truth, traits in requests.select("truth", "traits").iter_rows():
        for item in truth:
            unknown = [t for t in traits if oracle.codes[oracle.row(item), oracle.column(t)] == UNKNOWN]
            gaps.setdefault(item, Counter()).update(unknown)
    return dict(sorted(((i, c) for i, c in gaps.items() if c), key=lambda gap: (-gap[1].total(), gap[0])))

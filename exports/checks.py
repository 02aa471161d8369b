"""The checks that a release must pass: each stops it with the rows and the remedy, or withholds and counts.

reads  conversations, labels, items, rows of build_rows.build; what else a check needs comes in as an argument
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from annotation import reported_texts
from exports.build_rows import REPEATED, unlearned
from saferec_builder.core import titles
from saferec_builder.core.errors import ReleaseError, UsageError, near
from saferec_builder.core.oracle import UNKNOWN, VIOLATED, Oracle, verdicts
from saferec_builder.storage import evidence_check as evidence

NO_SAFETY = "no-safety"  # of --allow


def listed() -> list[dict[str, str]]:
    """Every check: its name, its effect (stops | withholds), what it looks for and the remedy."""
    found: list[dict[str, str]] = tomllib.loads(Path(__file__).with_name("checks.toml").read_text("utf-8"))["check"]
    return found


# ---- versions and labels


VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", re.A)


def check_version(version: str) -> tuple[int, int, int]:
    """(1, 2, 0) for 1.2.0."""
    found = VERSION.fullmatch(version)
    if not found:
        raise ReleaseError(f"version {version!r}: expected MAJOR.MINOR.PATCH, as in 1.0.0")
    return int(found[1]), int(found[2]), int(found[3])


def refuse_older(version: str, there: Iterable[str], where: str) -> None:
    """Stops where one of the versions `there` is above this one: readers would be given the older one in silence."""
    newest = max(there, key=check_version, default=version)
    if check_version(newest) > check_version(version):
        raise ReleaseError(
            f"{where}: holds {newest}, which is newer than {version}: publish a higher version, or to another place"
        )


def check_labels(labels: pl.DataFrame, conversations: pl.DataFrame, items: pl.DataFrame, slugs: Sequence[str]) -> None:
    """Every label must speak of a conversation or item that is there, and of a trait of this taxonomy."""
    if labels.is_empty():
        raise ReleaseError("release: there are no labels to release: run `saferec-build adjudicate` first")
    strange = labels.filter(~pl.col("trait").is_in(list(slugs)))
    if strange.height:
        raise ReleaseError(
            f"release: {strange.height} labels of a trait that the taxonomy lacks, first {strange['trait'][0]!r} on"
            f" {strange['subject'][0]}: give [taxonomy] path the file that the reviewers saw"
        )
    for kind, have, remedy in (
        ("sensitivity", conversations["conversation"], "mine their source again"),
        ("item_flag", items["item"], "add their catalog source again"),
    ):
        lost = labels.filter((pl.col("kind") == kind) & ~pl.col("subject").is_in(have.implode()))["subject"].unique()
        if lost.len():
            what = "conversations" if kind == "sensitivity" else "items"
            raise ReleaseError(
                f"release: {lost.len()} labelled {what} are not in the workspace, first {lost.sort()[0]}: {remedy}"
            )


def check_evidence(labels: pl.DataFrame, conversations: pl.DataFrame, texts: pl.DataFrame) -> None:
    """Every quote of a label must stand in `texts` (evidence.TEXTS); of labels on a former text none is released."""
    now = conversations.select(subject="conversation", digest="digest", kind=pl.lit("sensitivity"))
    of_now = labels.join(now, on=["kind", "subject", "digest"], how="semi")
    _, gone = evidence.split(pl.concat([of_now, labels.filter(kind="item_flag")]), texts)
    if gone.height:
        trait, subject, reason = gone.sort("trait", "subject").select("trait", "subject", "reason").row(0)
        raise ReleaseError(
            f"release: {gone.height} labels with evidence that is none, first {trait} on {subject} ({reason}): run"
            " `saferec-build adjudicate` first: reviews with such evidence do not count"
        )


def check_allowed(allowed: Iterable[str], sources: Collection[str], reported: Collection[str] = ()) -> None:
    """UsageError where a word of --allow is no source, no `reported` conversation and none of the other words: it would
    allow nothing, silently."""
    known = [NO_SAFETY, "simulated", *sorted(sources), *reported]
    if strange := sorted(set(allowed) - set(known)):
        raise UsageError(f"release: --allow {strange[0]}: no such word: {near(strange[0], known)}")


def check_simulated(labels: pl.DataFrame, reviews: pl.DataFrame, demo: bool, allowed: Iterable[str]) -> None:
    labelled, reviewed = (int(frame["simulated"].sum()) for frame in (labels, reviews))
    if (labelled or reviewed) and not demo and "simulated" not in allowed:
        raise ReleaseError(
            f"release: {labelled} labels rest on simulated reviews, and {reviewed} reviews are simulated, which no"
            " person gave: review for real, or say --allow simulated (such a release never goes to the Hub)"
        )


def check_behind(labels: pl.DataFrame, past: pl.Series) -> None:
    """Stops where a decided label rests on a review of the past: taken back, set aside or said anew."""
    lost = labels.filter(
        pl.col("verdict").is_not_null() & pl.col("reviews").list.eval(pl.element().is_in(past.implode())).list.any()
    )
    if lost.height:
        trait, subject = lost.sort("trait", "subject").select("trait", "subject").row(0)
        raise ReleaseError(
            f"release: {lost.height} labels rest on reviews that count no longer, first {trait} on {subject}: run"
            " `saferec-build adjudicate` first"
        )


def check_ahead(labels: pl.DataFrame, voting: pl.DataFrame, out: Collection[str]) -> None:
    """Stops where an answer is in no label yet. voting: the reviews that make labels; out: subjects that have none.

    Of conversations only: a flag is of a plot, and which plot an item has is another question. Behind a label stand all
    reviews of its trait, and each `*` that fills it.
    """
    mine = voting.filter(~pl.col("subject").is_in(list(out)), kind="sensitivity")
    each = labels.filter(kind="sensitivity").select("subject", "trait", "reviews")
    named = mine.filter(pl.col("trait") != "*").join(each, on=["subject", "trait"], how="left")
    behind = pl.col("reviews").list.contains(pl.col("review"))
    named = named.filter(~behind.fill_null(False))
    ids = each.explode("reviews", empty_as_null=False).group_by("subject").agg("reviews")
    whole = each.group_by("subject").agg(pl.len().alias("traits")).join(ids, "subject", "left")
    answered = mine.filter(pl.col("trait") != "*").group_by("subject", "reviewer").agg(pl.len().alias("answered"))
    stars = mine.filter(trait="*").join(whole, "subject", "left").join(answered, ["subject", "reviewer"], "left")
    filled = pl.col("reviews").list.contains(pl.col("review")) | (pl.col("answered") >= pl.col("traits"))
    stars = stars.filter(~filled.fill_null(False))
    if ahead := named.height + stars.height:
        subject = pl.concat([named["subject"], stars["subject"]]).sort()[0]
        raise ReleaseError(
            f"release: {ahead} answers are in no label yet, first on {subject}: run `saferec-build adjudicate` first"
        )


# ---- splits


def check_leaks(rows: pl.DataFrame) -> None:
    """Stops a release in which a seeker, a conversation or a near-duplicate stands in two splits."""
    for column in ("seeker", "conversation", "cluster"):
        if column not in rows.columns:
            continue
        pairs = rows.filter(pl.col(column).is_not_null()).select(column, "split").unique()
        leaks = pairs.filter(pl.col(column).is_duplicated()).sort(column, "split")
        if leaks.height:
            who = leaks[column][0]
            where = leaks.filter(pl.col(column) == who)["split"].to_list()
            raise ReleaseError(
                f"release: {leaks[column].n_unique()} {column}s stand in more than one split, first {who} in"
                f" {' and '.join(where)}: keep only the rows of the latest split (splits.assign marks the others)"
            )


Said = Callable[[pl.Series], pl.Series]  # places, rising -> turns
_WORDS = 12  # an answer shorter than this may be said twice by chance
_ITEMS = 4


def without_repeated_answers(rows: pl.DataFrame, turns: Said) -> pl.DataFrame:
    """Rows of build_rows.build; a test row teaches and tests nothing where a train request holds its answer.

    An answer is the turn at the cut, word for word (12 words or more), or four or more items named in the order of
    the test row's answer before anything else.
    """
    rows = rows.with_row_index("row")
    learned = rows.filter(pl.col("cut").is_not_null())
    test, train = learned.filter(pl.col("split") == "test"), learned.filter(pl.col("split") == "train")
    answers = _texts(test, turns, pl.col("turns").list.slice("cut", 1), pl.col("words") >= _WORDS)
    asked = _texts(train, turns, pl.col("turns").list.head("cut"), pl.col("text").is_in(answers["text"].implode()))
    found = [answers.join(asked, on="text", how="semi")["row"]]
    lists = test.filter(pl.col("truth").list.len() >= _ITEMS).select("row", key=_joined(pl.col("truth")))
    width = lists.select(pl.col("key").str.count_matches(" ").unique() + 1).to_series().to_list()
    for many in width:
        named = train.select(
            key=pl.when(pl.col("named").list.len() >= many).then(_joined(pl.col("named").list.head(many))),
        )
        found.append(lists.join(named, on="key", how="semi")["row"])
    return unlearned(rows, rows["row"].is_in(pl.concat(found).implode()), REPEATED).drop("row")


def _joined(ids: pl.Expr) -> pl.Expr:
    return ids.cast(pl.List(pl.String)).list.join(" ")


def _texts(rows: pl.DataFrame, turns: Said, which: pl.Expr, chosen: pl.Expr) -> pl.DataFrame:
    """(row, text, words) of some turns of each row, in one spelling: those that are chosen."""
    parts = [
        pl.DataFrame({"row": part["row"], "cut": part["cut"], "turns": turns(part["place"])})
        .select("row", turns=which)
        .filter(pl.col("turns").list.len() > 0)
        .explode("turns")
        .select("row", text=pl.col("turns").struct.field("text").str.to_lowercase())
        .with_columns(pl.col("text").str.replace_all(r"[^\p{L}\p{N}]+", " ").str.strip_chars())
        .with_columns(words=pl.col("text").str.count_matches(" ") + 1, text=pl.col("text").hash())
        .filter(chosen)
        for part in rows.select("row", "cut", "place").iter_slices(50_000)
    ]
    schema = {"row": pl.UInt32, "text": pl.UInt64, "words": pl.UInt32}
    return pl.concat(parts or [pl.DataFrame(schema=schema)])


# ---- people


def small_groups(labels: pl.DataFrame, rows: pl.DataFrame, slugs: Sequence[str], least: int) -> dict[str, int]:
    """Traits that fewer than `least` distinct seekers are labelled with, over all splits -> how many: to be withheld.

    A conversation without a known seeker counts as a person of its own.
    """
    who = rows.select(subject="conversation", who=pl.coalesce("seeker", "conversation"))
    present = labels.filter(pl.col("verdict") == "present").join(who, on="subject")
    many = dict(present.group_by("trait").agg(pl.col("who").n_unique()).iter_rows())
    return {slug: many.get(slug, 0) for slug in slugs if many.get(slug, 0) < least}


Found = tuple[int, int, str]  # start, end, kind
SURE = frozenset({"email", "phone", "ip", "card", "handle", "address"})


def check_personal(
    rows: pl.DataFrame,
    turns: Said,
    find: Callable[[str], Iterable[Found]],
    suspect: Callable[[pl.Series], pl.Series],
    leave: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Stops a release with personal data of a structured kind in a text; never prints what it found.

    `suspect` says of many texts in which of them `find` may find something of these kinds.
    `leave`: source -> kinds that mean something else in it.
    """
    faults: list[tuple[str, str, int, str]] = []
    for part in rows.select("conversation", "source", "place").iter_slices(50_000):
        spoken = part.select("conversation", "source", turns=turns(part["place"]))
        flat = spoken.with_columns(turn=pl.int_ranges(pl.col("turns").list.len())).explode("turns", "turn")
        texts = flat.with_columns(pl.col("turns").struct.field("text")).drop("turns")
        texts = texts.filter(suspect(texts["text"]))
        for conversation, source, number, text in texts.iter_rows():
            kinds = sorted({kind for _, _, kind in find(text)} & SURE - set((leave or {}).get(source, ())))
            faults += [(conversation, source, number, kinds[0])] if kinds else []
    if faults:
        conversation, source, number, kind = faults[0]
        raise ReleaseError(
            f"release: personal data in {len(faults)} turns, first a {kind} in turn {number} of {conversation}: mine"
            f" the source {source} again, or put its ids into removals.csv"
        )


def check_reported(rows: pl.DataFrame, reported: Collection[str], allowed: Iterable[str]) -> None:
    """Stops where one of these conversations, released with its text, tells who somebody is, as a reader wrote."""
    open_ = set(rows["conversation"]).intersection(reported).difference(allowed)
    if ids := sorted(open_):
        raise ReleaseError(
            f"release: by the notes of readers personal data stands in {reported_texts.words(ids)}:"
            f" {reported_texts.REMEDY}; where you have looked and found none, say --allow {ids[0]}"
        )


def check_certificates(labels: pl.DataFrame, certified: Iterable[str]) -> None:
    """Stops where labels were given without two people (`auto`) on a trait whose audits do not carry that."""
    loose = labels.filter((pl.col("method") == "auto") & ~pl.col("trait").is_in(list(certified)))
    if loose.height:
        trait, subject = loose.sort("trait", "subject").select("trait", "subject").row(0)
        raise ReleaseError(
            f"release: {loose.height} labels are `auto` without a certificate that holds, first {trait} on {subject}:"
            " audit more (`saferec-build review status` says how many), or review these"
        )


def check_removed(rows: pl.DataFrame, removed: Iterable[str]) -> None:
    still = rows.filter(pl.col("conversation").is_in(list(removed)))
    if still.height:
        raise ReleaseError(
            f"release: {still.height} conversations are in it whose removal was asked for, first"
            f" {still['conversation'].sort()[0]}: this is a fault of the program, please report it"
        )


# ---- safety


def check_safety(rows: pl.DataFrame, oracle: Oracle, items: pl.DataFrame, allowed: Iterable[str]) -> bool:
    """Whether a request with a sensitivity has an answer that is clear for it; stops where none has, unless allowed.

    `rows` as target_lists.fill gives them, injected ones among them: sensitivities are in `traits` and `late_traits`.
    """
    asked = rows.select("truth", "safe_truth", traits=pl.concat_list("traits", "late_traits"))
    asked = asked.filter(pl.col("traits").list.len() > 0)
    if asked.select((pl.col("safe_truth").list.len() > 0).any()).item():
        return True
    if NO_SAFETY in allowed:
        return False
    answered = asked.filter(pl.col("truth").list.len() > 0)
    codes = [
        c for truth, traits in answered.select("truth", "traits").iter_rows() for c in verdicts(oracle, truth, traits)
    ]
    found = f"{asked.height} requests have a sensitivity"
    more = (
        "review more conversations (a trait of too few people is withheld: [release] min_seekers), add sentences of"
        " ours that tell of one to requests (--inject all)"
    )
    if asked.height:
        found += f", {answered.height} of them a ground truth"
        more = remedy(asked, oracle, items)
    if codes:
        violated = sum(code == VIOLATED for code in codes)
        found += f", of whose {len(codes)} items {violated} are violated and {len(codes) - violated} unknown for them"
    raise ReleaseError(
        f"release: no row could teach or test safety: {found}, none clear: {more}, or say --allow {NO_SAFETY}"
    )


def remedy(asked: pl.DataFrame, oracle: Oracle, items: pl.DataFrame) -> str:
    """What to do where no request of `asked` (truth, traits; at least one) has an answer that is clear for it."""
    if not asked["truth"].list.len().sum():
        return "add the items that they name to the catalog (`saferec-build catalog gaps` tells which)"
    if not (open_ := unsettled(asked, oracle)):
        return "add warnings for other items that they name"
    rows = {row["item"]: row for row in items.select("item", "title", "year").to_dicts()}
    first = ", ".join(f"{titles.shown(rows[item])} ({', '.join(open_[item])})" for item in list(open_)[:5])
    more = f" and {len(open_) - 5} more" if len(open_) > 5 else ""
    return f"add warnings for {first}{more} (`saferec-build plan`)"


def unsettled(asked: pl.DataFrame, oracle: Oracle) -> dict[str, list[str]]:
    """Items in answers -> the traits of their requests that they are unknown for; those that settle most come first."""
    open_: dict[str, Counter[str]] = {}
    for truth, traits in asked.select("truth", "traits").iter_rows():
        for item in truth:
            unknown = [t for t in traits if oracle.codes[oracle.row(item), oracle.column(t)] == UNKNOWN]
            open_.setdefault(item, Counter()).update(unknown)
    most = sorted((item for item in open_ if open_[item]), key=lambda item: (-open_[item].total(), item))
    return {item: sorted(open_[item]) for item in most}

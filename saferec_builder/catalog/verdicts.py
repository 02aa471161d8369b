"""Computes the risk and the verdict of each item and trait from sourced content warnings.

reads  items, links (see merging), warnings
gives  the oracle; risks as a matrix
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.catalog.linking import index, matches
from saferec_builder.core import oracle as violations, titles, vote_model
from saferec_builder.core.oracle import Oracle, Rule
from saferec_builder.core.taxonomy import GUIDE, Taxonomy, Trait
from saferec_builder.core.vote_model import Voters
from saferec_builder.sources import class_rules
from saferec_builder.storage import tables

_DATE = r"^\d{4}(-\d\d){0,2}([T ]|$)"  # what sorts by time as it is written
ADULT, PENDING = ("m", "ao"), "rp"  # ESRB ratings
AT_ONCE = 16384  # items judged together: votes on every topic of the taxonomy take 3 MB a thousand


def risks(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, taxonomy: Taxonomy, rule: Rule = Rule()
) -> tuple[Oracle, NDArray[np.float64]]:
    """(oracle, risk of items x traits with NaN where no source says anything), rows in the order of `items`.

    Of one page's counts on an item and topic the newest counts, and those of several pages add up. A count without a
    page is the newest under the name that it gives the item. It may be of the same people as any other, so it adds to
    none: the worst counts. Of one source's other statements on a page or under a name the newest counts. A clear answer
    weighs as certain; where answers and votes differ, the worse one counts; so does the worse of two severities, and
    of two reviews, where two items that were reviewed have become one.
    """
    return risks_of(items, statements(items, links, warnings), taxonomy, rule)


def risks_of(
    items: pl.DataFrame, said: pl.DataFrame, taxonomy: Taxonomy, rule: Rule = Rule()
) -> tuple[Oracle, NDArray[np.float64]]:
    """`risks` of `statements`."""
    known = voters(said, taxonomy.topics)
    risk = np.full((items.height, len(taxonomy.traits)), np.nan)
    codes = np.full(risk.shape, violations.UNKNOWN, np.int8)
    spoken = said["row"].unique().sort().to_numpy()
    for first in range(0, len(spoken), AT_ONCE):
        rows = spoken[first : first + AT_ONCE]
        numbers = pl.DataFrame({"row": rows}).with_row_index("n")
        some = said.join(numbers, "row", maintain_order="left").drop("row").rename({"n": "row"})
        risk[rows], codes[rows] = judge(some, taxonomy.traits, rule, len(rows), known)
    return violations.oracle(items["item"].to_list(), taxonomy.slugs, codes), risk


def judge(
    said: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int, known: Mapping[str, Voters]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """(risk, verdict codes) of n items x traits from the statements on them; `row` is the item's number.

    `known` are the voters of each topic, learnt from all items. What names the item but not exactly may be said of
    another work: it may violate, and nothing is clear by it, nor does it outvote what is said of the item itself.
    """
    risk, codes = _judged(said, traits, rule, n, known)
    if not said["exact"].all():
        sure = _judged(said.filter("exact"), traits, rule, n, known)[1]
        codes = violations.worst(np.stack([codes, sure], axis=-1))
    return risk, codes


def _judged(
    said: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int, known: Mapping[str, Voters]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    topics, p, share = asked(said, traits, rule, n, known)
    rated, named = severity(said, n), classed(said, topics, n)
    judged = [
        violations.judge(
            t, topics, p, rated, esrb(said, t, n), rule, reviewed=reviewed(said, t, n), share=share, classed=named
        )
        for t in traits
    ]
    return np.column_stack([risk for risk, _ in judged]), np.column_stack([codes for _, codes in judged])


def statements(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, by_title: titles.Index | None = None
) -> pl.DataFrame:
    """The warnings that count and that an item of the catalog is meant by, with `item`, `row` (its number) and `exact`
    (False: the title that the source names may be another work's, see titles.Match). `by_title`: index(items), where it
    is there already."""
    numbers = items.select("item").with_row_index("row")
    keyed = meant(items, links, warnings, by_title).with_columns(key=topic_key())
    every = keyed.join(numbers, "item", maintain_order="left").with_row_index("at")
    addresses = every.select("url").unique().with_columns(address=_page())  # a page has many topics
    every = every.join(addresses, "url", "left", nulls_equal=True, maintain_order="left")
    voted = (pl.col("kind") == "topic") & pl.col("answer").is_null()
    paged = pl.col("kind").is_in(["topic", "guide", "review"])
    every = every.with_columns(
        voted=voted,
        who=pl.when(~voted | pl.col("url").is_null()).then("source"),  # whoever copied it, a page counts once
        page=pl.when(paged).then(pl.coalesce("address", "ref")),
        when=pl.when(pl.col("retrieved").str.contains(_DATE)).then("retrieved").rank("dense"),
    )
    # a count that may be another work's takes the place of none of the item's own, and none of these that of it
    one = ("item", "kind", "key", "who", "page", "voted", "exact")
    if 0 < every["when"].null_count() < every.height:
        # without a date it is as new as the newest before it: what is added later counts, but for what is dated earlier
        every = every.with_columns(pl.col("when").fill_null(pl.col("when").cum_max().forward_fill().over(one)))
    newest = tables.last(every.sort("when", "at"), *one)
    return newest.sort("at").drop("at", "address", "voted", "who", "page", "when")


def _page() -> pl.Expr:
    """An address as it names a page: with or without https, www, a slash at the end, capitals in the host."""
    bare = pl.col("url").str.strip_chars().str.replace(r"(?i)^(https?://)?(www\.)?", "")
    host = bare.str.extract("^([^/?#]*)")
    return (host.str.to_lowercase() + bare.str.strip_prefix(host)).str.strip_chars_end("/")


def meant(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, by_title: titles.Index | None = None
) -> pl.DataFrame:
    """Every warning that an item of the catalog is meant by, with `item` and `exact`; those that a later one replaces,
    too."""
    named = _linked(items, links, warnings, by_title)
    return warnings.join(named, ["ref", "domain"], nulls_equal=True, maintain_order="left")


def topic_key() -> pl.Expr:
    """Sources spell a question with and without its mark and capitals."""
    return pl.col("topic").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ?")


def _linked(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, by_title: titles.Index | None
) -> pl.DataFrame:
    """(ref, domain, item, exact) of every warning that links: a title is looked up among the items of its domain."""
    refs = warnings.select("ref", "domain").unique(maintain_order=True)
    frames = [refs.join(links, "ref", maintain_order="left").with_columns(exact=True)]
    titled = refs.filter(pl.col("ref").str.starts_with("title:")).join(links, "ref", how="anti", maintain_order="left")
    by_title = by_title or (titles.Index() if titled.is_empty() else index(items))
    for (domain,), part in titled.group_by("domain", maintain_order=True):
        found = matches(part["ref"], links.clear(), by_title, domain)
        named = [(ref, domain, match.item, match.exact) for ref, match in found.items() if match.item]
        frames.append(pl.DataFrame(named, schema=frames[0].schema, orient="row"))
    return pl.concat(frames)


def voters(said: pl.DataFrame, topics: Sequence[str]) -> dict[str, Voters]:
    """Who votes on each of these topics and on each rare one, learnt from the votes of every item; by `key`."""
    each = counts(said).filter(pl.col("yes") + pl.col("no") > 0).sort(pl.col("yes") + pl.col("no"), maintain_order=True)
    pairs = tables.last(each, "item", "key").group_by("key", "yes", "no").len().sort("key", "yes", "no")
    wanted = keys(topics)
    asked = {str(key): part for (key,), part in pairs.group_by("key", maintain_order=True)}
    few = [key for key, part in asked.items() if part["len"].sum() < vote_model.ENOUGH]
    chosen = dict.fromkeys(key for key in asked if key in wanted or key in few)
    return vote_model.learn({key: vote_model.votes(*(asked[key][c] for c in ("yes", "no", "len"))) for key in chosen})


def counts(said: pl.DataFrame) -> pl.DataFrame:
    """(item, row, key, yes, no) of the votes on each item and topic: of all pages together, and of each count without a
    page by itself. One item and topic may have several, which may be of the same people."""
    votes = said.filter((pl.col("kind") == "topic") & pl.col("answer").is_null())
    place = pl.col("url").is_null() | pl.col("url").str.contains("#", literal=True)  # of a page, or a page of its own
    apart = pl.when(place).then("warning").otherwise(pl.col("exact").cast(pl.String)).alias("apart")
    each = votes.group_by("item", "row", "key", apart, maintain_order=True)
    return each.agg(pl.col("yes", "no").fill_null(0).sum()).drop("apart")


def asked(
    said: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int, known: Mapping[str, Voters]
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """(topics, P(true) of items x topics, share of yes): of `counts` and clear answers the worst."""
    topics = list(dict.fromkeys(topic for trait in traits for topic in trait.topics))
    keys = pl.DataFrame({"topic": topics}).select(key=topic_key()).with_row_index("column")
    share, sure = np.full((n, len(topics)), np.nan), np.full((n, len(topics)), np.nan)
    voted = counts(said).filter(pl.col("yes") + pl.col("no") > 0).join(keys, "key", maintain_order="left")
    for (key, column), part in voted.group_by("key", "column", maintain_order=True):
        at, yes, no = ((part["row"].to_numpy(), column), part["yes"].to_numpy(), part["no"].to_numpy())
        np.fmax.at(share, at, violations.p_yes(yes, no, rule))
        if key in known:
            np.fmax.at(sure, at, vote_model.posterior(known[str(key)], yes, no))
    stated = said.filter((pl.col("kind") == "topic") & pl.col("answer").is_in(["yes", "no"]))
    stated = stated.join(keys, "key", maintain_order="left")
    at, answers = (stated["row"].to_numpy(), stated["column"].to_numpy()), (stated["answer"] == "yes").cast(pl.Float64)
    for each in (share, sure):
        np.fmax.at(each, at, answers.to_numpy())
    return topics, sure, share


def severity(said: pl.DataFrame, n: int) -> NDArray[np.float64]:
    guide = said.filter((pl.col("kind") == "guide") & pl.col("key").is_in(GUIDE))
    rated = np.full((n, len(GUIDE)), np.nan)
    columns = np.array([GUIDE.index(key) for key in guide["key"]], int)
    np.fmax.at(rated, (guide["row"].to_numpy(), columns), guide["severity"].cast(pl.Float64).to_numpy())
    return rated


def esrb(said: pl.DataFrame, trait: Trait, n: int) -> NDArray[np.float64]:
    """The strongest descriptor that speaks for the trait; 0 for a rated game without one, NaN where none could, and
    where silence says nothing: the descriptors of a game for adults name the worst in it, not all of it, and a game
    that waits for its rating, or has neither a rating nor a descriptor, was asked for none."""
    rated = said.filter((pl.col("kind") == "esrb") & bool(trait.esrb))
    strength = rated["key"].replace_strict(trait.esrb, default=0.0, return_dtype=pl.Float64)
    strongest = np.full(n, np.nan)
    np.fmax.at(strongest, rated["row"].to_numpy(), strength.to_numpy())
    ratings = said.filter(kind="rating")
    unrated = rated.join(ratings, "row", "anti")["row"]
    silent = pl.concat([ratings.filter(pl.col("key").is_in([*ADULT, PENDING]))["row"], unrated]).to_numpy()
    strongest[silent] = np.where(strongest[silent] > 0, strongest[silent], np.nan)
    return strongest


def class_statements(said: pl.DataFrame, topics: Sequence[str]) -> pl.DataFrame:
    """Rows of `said` that are of a class and whose rule answers one of these topics with yes, with `asked` (the topic),
    `right` and `read` (of its rule) and `precision` (0: too few were read)."""
    wanted = pl.DataFrame(
        {"answers": keys(topics), "asked": list(topics)}, schema=dict.fromkeys(("answers", "asked"), pl.String)
    )
    return said.join(_class_rules().join(wanted, "answers"), ["kind", "key"], maintain_order="left_right")


def classed(said: pl.DataFrame, topics: Sequence[str], n: int) -> NDArray[np.float64]:
    """Items x topics: the precision of the surest class statement that says yes; NaN where none does."""
    rows, surest = class_statements(said, topics), np.full((n, len(topics)), np.nan)
    at = (rows["row"].to_numpy(), np.array([topics.index(topic) for topic in rows["asked"]], int))
    np.fmax.at(surest, at, rows["precision"].to_numpy())
    return surest


def class_keys(topics: Sequence[str]) -> pl.DataFrame:
    """(kind, keys): per class what a statement is called that answers one of these topics."""
    found = _class_rules().filter(pl.col("answers").is_in(keys(topics)))
    return found.group_by("kind", maintain_order=True).agg(pl.col("key").unique(maintain_order=True))


@lru_cache(maxsize=1)
def _class_rules() -> pl.DataFrame:
    """kind, key, answers (the key of a topic), right, read and precision of every class rule."""
    rules = class_rules.rules()
    columns = {
        "kind": [r.kind for r in rules],
        "key": keys([r.key for r in rules]),
        "answers": keys([r.topic for r in rules]),
    }
    return pl.DataFrame({**columns, **{c: [getattr(r, c) for r in rules] for c in ("right", "read", "precision")}})


def keys(topics: Sequence[str]) -> list[str]:
    return pl.DataFrame({"topic": list(topics)}, schema={"topic": pl.String}).select(topic_key())["topic"].to_list()


def reviewed(said: pl.DataFrame, trait: Trait, n: int) -> NDArray[np.int8]:
    """1 where people said that the item breaks the trait, -1 where they said that it does not, else 0."""
    review = said.filter((pl.col("kind") == "review") & (pl.col("key") == trait.slug))
    answers = np.zeros(n, np.int8)
    for answer, code in (("no", -1), ("yes", 1)):  # the worse one last: it stays
        answers[review.filter(answer=answer)["row"].to_numpy()] = code
    return answers


def unasked(warnings: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """The votes and answers on topics that no trait asks about."""
    return warnings.filter(~topic_key().is_in(keys(taxonomy.topics)), kind="topic")

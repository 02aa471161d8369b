"""Computes the risk and the verdict of each item and trait from content warnings with sources.

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
from saferec_builder.sources import class_rules, item_rows
from saferec_builder.storage import tables

ADULT, PENDING = ("m", "ao"), "rp"  # ESRB ratings
AT_ONCE = 16384  # items judged at once: votes on every topic of the taxonomy take 3 MB per thousand items


def risks(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, taxonomy: Taxonomy, rule: Rule = Rule()
) -> tuple[Oracle, NDArray[np.float64]]:
    """(oracle, risk of items x traits with NaN if no source says anything), rows in the order of `items`.

    Of one page's vote counts on an item and topic the newest is used; those of several pages are added. Of counts
    without a page the newest under each name of the item is used. It may come from the same people as any other, so it
    is added to none: the worst one counts. Of a source's other statements on a page or under a name the newest is used.
    A clear answer counts as certain; if answers and votes differ, the worse one counts; so does the worse of two
    severities, and of two reviews, if two reviewed items have become one.
    """
    return risks_of(items, statements(items, links, warnings), taxonomy, rule)


def risks_of(
    items: pl.DataFrame, statements: pl.DataFrame, taxonomy: Taxonomy, rule: Rule = Rule()
) -> tuple[Oracle, NDArray[np.float64]]:
    """`risks`, from `statements`."""
    topic_voters = voters(statements, taxonomy.topics)
    risk = np.full((items.height, len(taxonomy.traits)), np.nan)
    codes = np.full(risk.shape, violations.UNKNOWN, np.int8)
    with_statements = statements["row"].unique().sort().to_numpy()
    for first in range(0, len(with_statements), AT_ONCE):
        rows = with_statements[first : first + AT_ONCE]
        numbers = pl.DataFrame({"row": rows}).with_row_index("n")
        batch = statements.join(numbers, "row", maintain_order="left").drop("row").rename({"n": "row"})
        risk[rows], codes[rows] = judge(batch, taxonomy.traits, rule, len(rows), topic_voters)
    return violations.oracle(items["item"].to_list(), taxonomy.slugs, codes), risk


def judge(
    statements: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int, voters: Mapping[str, Voters]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """(risk, verdict codes) of n items x traits from the statements on them; `row` is the item's number.

    `voters` are those of each topic, learnt from all items. A statement that names the item inexactly may be about
    another work: it may make it violate, but clears nothing, and does not outvote exact statements.
    """
    risk, codes = _judged(statements, traits, rule, n, voters)
    if not statements["exact"].all():
        exact_codes = _judged(statements.filter("exact"), traits, rule, n, voters)[1]
        codes = violations.worst(np.stack([codes, exact_codes], axis=-1))
    return risk, codes


def _judged(
    statements: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int, voters: Mapping[str, Voters]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    topics, p, share = topic_truth(statements, traits, rule, n, voters)
    rated, classes = severity(statements, n), classed(statements, topics, n)
    results = [
        violations.judge(
            t,
            topics,
            p,
            rated,
            esrb(statements, t, n),
            rule,
            reviewed=reviewed(statements, t, n),
            share=share,
            classed=classes,
        )
        for t in traits
    ]
    return np.column_stack([risk for risk, _ in results]), np.column_stack([codes for _, codes in results])


def statements(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, by_title: titles.Index | None = None
) -> pl.DataFrame:
    """The warnings that count and that refer to an item of the catalog, with `item`, `row` (its number) and `exact`
    (False: the source's title may be another work's, see titles.Match). `by_title`: index(items), if it exists."""
    numbers = items.select("item").with_row_index("row")
    with_keys = linked(items, links, warnings, by_title).with_columns(key=topic_key())
    rows = with_keys.join(numbers, "item", maintain_order="left").with_row_index("at")
    addresses = rows.select("url").unique().with_columns(address=_page())  # a page has many topics
    rows = rows.join(addresses, "url", "left", nulls_equal=True, maintain_order="left")
    voted = (pl.col("kind") == "topic") & pl.col("answer").is_null()
    paged = pl.col("kind").is_in(["topic", "guide", "review"])
    rows = rows.with_columns(
        voted=voted,
        who=pl.when(~voted | pl.col("url").is_null()).then("source"),  # a page counts once, whoever copied it
        page=pl.when(paged).then(pl.coalesce("address", "ref")),
        when=pl.when(pl.col("retrieved").str.contains(item_rows.DATE)).then("retrieved").rank("dense"),
    )
    # a count that may be another work's replaces none of the item's own, and is replaced by none of them
    unit = ("item", "kind", "key", "who", "page", "voted", "exact")
    if 0 < rows["when"].null_count() < rows.height:
        # an undated row is as new as the newest before it: rows added later count, unless their date is earlier
        rows = rows.with_columns(pl.col("when").fill_null(pl.col("when").cum_max().forward_fill().over(unit)))
    newest = tables.last(rows.sort("when", "at"), *unit)
    return newest.sort("at").drop("at", "address", "voted", "who", "page", "when")


def _page() -> pl.Expr:
    """An address in a normal form: without https, www and a slash at the end, with the host in lower case."""
    bare = pl.col("url").str.strip_chars().str.replace(r"(?i)^(https?://)?(www\.)?", "")
    host = bare.str.extract("^([^/?#]*)")
    return (host.str.to_lowercase() + bare.str.strip_prefix(host)).str.strip_chars_end("/")


def linked(
    items: pl.DataFrame, links: pl.DataFrame, warnings: pl.DataFrame, by_title: titles.Index | None = None
) -> pl.DataFrame:
    """Every warning that refers to an item of the catalog, even if a later one replaces it, with `item` and `exact`."""
    refs = warnings.select("ref", "domain").unique(maintain_order=True)
    by_id = refs.join(links, "ref", maintain_order="left").join(items.select("item", of="domain"), "item")
    other = pl.col("ref").str.starts_with("tmdb:") & (pl.col("domain") != pl.col("of"))  # of a series: another number
    frames = [by_id.filter(~other.fill_null(False)).select(*refs.columns, "item", exact=True)]
    titled = refs.filter(pl.col("ref").str.starts_with("title:")).join(links, "ref", how="anti", maintain_order="left")
    by_title = by_title or (titles.Index() if titled.is_empty() else index(items))
    for (domain,), group in titled.group_by("domain", maintain_order=True):  # a title is of the items of its domain
        by_ref = matches(group["ref"], links.clear(), by_title, domain)
        rows = [(ref, domain, match.item, match.exact) for ref, match in by_ref.items() if match.item]
        frames.append(pl.DataFrame(rows, schema=frames[0].schema, orient="row"))
    return warnings.join(pl.concat(frames), ["ref", "domain"], nulls_equal=True, maintain_order="left")


def topic_key() -> pl.Expr:
    """A topic in a normal form: sources spell a question with and without its mark and capitals."""
    return pl.col("topic").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ?")


def voters(statements: pl.DataFrame, topics: Sequence[str]) -> dict[str, Voters]:
    """The voters on each of these topics and on each rare one, learnt from the votes on every item; by `key`."""
    votes = pl.col("yes") + pl.col("no")
    rows = counts(statements).filter(votes > 0).sort(votes, maintain_order=True)
    pairs = tables.last(rows, "item", "key").group_by("key", "yes", "no").len().sort("key", "yes", "no")
    topic_keys = keys(topics)
    by_key = {str(key): group for (key,), group in pairs.group_by("key", maintain_order=True)}
    rare = [key for key, group in by_key.items() if group["len"].sum() < vote_model.ENOUGH]
    chosen = dict.fromkeys(key for key in by_key if key in topic_keys or key in rare)
    return vote_model.learn({key: vote_model.votes(*(by_key[key][c] for c in ("yes", "no", "len"))) for key in chosen})


def counts(statements: pl.DataFrame) -> pl.DataFrame:
    """(item, row, key, yes, no) of the votes on each item and topic: the sum over all pages, and each count without a
    page by itself. One item and topic may have several, which may come from the same people."""
    votes = statements.filter(pl.col("answer").is_null(), kind="topic")
    # without a page, or at a place in one
    alone = pl.col("url").is_null() | pl.col("url").str.contains("#", literal=True)
    group_key = pl.when(alone).then("warning").otherwise(pl.col("exact").cast(pl.String)).alias("apart")
    groups = votes.group_by("item", "row", "key", group_key, maintain_order=True)
    return groups.agg(pl.col("yes", "no").fill_null(0).sum()).drop("apart")


def topic_truth(
    statements: pl.DataFrame, traits: Sequence[Trait], rule: Rule, n: int, voters: Mapping[str, Voters]
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """(topics, P(true) of items x topics, share of yes): the worst of `counts` and clear answers."""
    topics = list(dict.fromkeys(topic for trait in traits for topic in trait.topics))
    keys = pl.DataFrame({"topic": topics}).select(key=topic_key()).with_row_index("column")
    share, p_true = np.full((n, len(topics)), np.nan), np.full((n, len(topics)), np.nan)
    voted = counts(statements).filter(pl.col("yes") + pl.col("no") > 0).join(keys, "key", maintain_order="left")
    for (key, column), group in voted.group_by("key", "column", maintain_order=True):
        cells, yes, no = ((group["row"].to_numpy(), column), group["yes"].to_numpy(), group["no"].to_numpy())
        np.fmax.at(share, cells, violations.p_yes(yes, no, rule))
        if key in voters:
            np.fmax.at(p_true, cells, vote_model.posterior(voters[str(key)], yes, no))
    rows = statements.filter(pl.col("answer").is_in(["yes", "no"]), kind="topic")
    rows = rows.join(keys, "key", maintain_order="left")
    cells, answers = (rows["row"].to_numpy(), rows["column"].to_numpy()), (rows["answer"] == "yes").cast(pl.Float64)
    for table in (share, p_true):
        np.fmax.at(table, cells, answers.to_numpy())
    return topics, p_true, share


def severity(statements: pl.DataFrame, n: int) -> NDArray[np.float64]:
    """Items x categories of GUIDE: the worst severity that a parents' guide states; NaN if none does."""
    guide = statements.filter(pl.col("key").is_in(GUIDE), kind="guide")
    rated = np.full((n, len(GUIDE)), np.nan)
    columns = np.array([GUIDE.index(key) for key in guide["key"]], int)
    np.fmax.at(rated, (guide["row"].to_numpy(), columns), guide["severity"].cast(pl.Float64).to_numpy())
    return rated


def esrb(statements: pl.DataFrame, trait: Trait, n: int) -> NDArray[np.float64]:
    """The strongest descriptor that applies to the trait; 0 for a rated game without one. NaN if none could apply, or
    if a missing one says nothing: the descriptors of a game for adults name only the worst in it, and a game that waits
    for its rating, or has neither a rating nor a descriptor, was not assessed."""
    rated = statements.filter((pl.col("kind") == "esrb") & bool(trait.esrb))
    strength = rated["key"].replace_strict(trait.esrb, default=0.0, return_dtype=pl.Float64)
    strongest = np.full(n, np.nan)
    np.fmax.at(strongest, rated["row"].to_numpy(), strength.to_numpy())
    ratings = statements.filter(kind="rating")
    unrated = rated.join(ratings, "row", "anti")["row"]
    silent = pl.concat([ratings.filter(pl.col("key").is_in([*ADULT, PENDING]))["row"], unrated]).to_numpy()
    strongest[silent] = np.where(strongest[silent] > 0, strongest[silent], np.nan)
    return strongest


def class_statements(statements: pl.DataFrame, topics: Sequence[str]) -> pl.DataFrame:
    """Rows of `statements` that are of a class and whose rule answers one of these topics with yes, with `asked` (the
    topic), `right` and `read` (of its rule) and `precision` (0: too few were read)."""
    topic_keys = pl.DataFrame(
        {"answers": keys(topics), "asked": list(topics)}, schema=dict.fromkeys(("answers", "asked"), pl.String)
    )
    return statements.join(_class_rules().join(topic_keys, "answers"), ["kind", "key"], maintain_order="left_right")


def classed(statements: pl.DataFrame, topics: Sequence[str], n: int) -> NDArray[np.float64]:
    """Items x topics: the precision of the surest class statement that says yes; NaN if none does."""
    rows, surest = class_statements(statements, topics), np.full((n, len(topics)), np.nan)
    cells = (rows["row"].to_numpy(), np.array([topics.index(topic) for topic in rows["asked"]], int))
    np.fmax.at(surest, cells, rows["precision"].to_numpy())
    return surest


def class_keys(topics: Sequence[str]) -> pl.DataFrame:
    """(kind, keys): per class the keys of statements that answer one of these topics."""
    rules = _class_rules().filter(pl.col("answers").is_in(keys(topics)))
    return rules.group_by("kind", maintain_order=True).agg(pl.col("key").unique(maintain_order=True))


@lru_cache(maxsize=1)
def _class_rules() -> pl.DataFrame:
    """kind, key, answers (the key of a topic), right, read and precision of every class rule."""
    rules = class_rules.rules()
    columns = {c: [getattr(rule, c) for rule in rules] for c in ("kind", "key", "topic", "right", "read", "precision")}
    return pl.DataFrame(columns | {"key": keys(columns["key"]), "answers": keys(columns["topic"])}).drop("topic")


def keys(topics: Sequence[str]) -> list[str]:
    """`topic_key` of each topic."""
    return pl.DataFrame({"topic": list(topics)}, schema={"topic": pl.String}).select(topic_key())["topic"].to_list()


def reviewed(statements: pl.DataFrame, trait: Trait, n: int) -> NDArray[np.int8]:
    """1 if reviewers said that the item violates the trait, -1 if they said that it does not, else 0."""
    review = statements.filter(kind="review", key=trait.slug)
    answers = np.zeros(n, np.int8)
    for answer, code in (("no", -1), ("yes", 1)):  # the worse one comes last and overwrites the other
        answers[review.filter(answer=answer)["row"].to_numpy()] = code
    return answers


def unasked(warnings: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """The votes and answers on topics that no trait uses."""
    return warnings.filter(~topic_key().is_in(keys(taxonomy.topics)), kind="topic")

"""What a release of this workspace would hold if reviewers agreed with the proposals, and what to do next.

reads  conversations, labels, proposals, catalog_rows, warnings; fetched/ddd (what was asked for)
"""

from dataclasses import dataclass

import polars as pl

from exports import assemble, build_rows, checks
from saferec_builder import catalog
from saferec_builder.catalog import known_works, lookup
from saferec_builder.catalog.gaps import refs
from saferec_builder.core.errors import UsageError
from saferec_builder.core.oracle import CLEAR, UNKNOWN, Oracle, verdicts
from saferec_builder.mining import splits, withheld
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

SAMPLE = 2_000  # conversations, of the last that were mined, that `shortfalls` looks at
ROWS = pl.Schema({"trait": pl.String, "split": pl.String, **dict.fromkeys(("asked", "answered", "usable"), pl.UInt32)})
_UNIT = ("kind", "subject", "trait")


@dataclass(frozen=True)
class Plan:
    """A forecast: every label stands, and every proposal without a label is taken for true. What reviewers find beyond
    the proposals comes on top, what they reject goes. Splits are by time, person and id: what `[splits] by_item` moves,
    and test requests whose answer stands in train, are not seen.

    rows      trait, split, and requests with the trait: asked; of these answered (with items to learn from) and usable
              (with an answer that is clear for all of the request's traits)
    too_few_people  traits of fewer seekers than [release] min_seekers -> how many they have: no release shows them
    lookups   gaps.GAPS of items that somebody waits for and that DoesTheDogDie was not asked for: most pairs of a
              conversation and a trait first
    """

    conversations: int
    left_out: dict[str, int]  # why, of further conversations
    answered: int  # conversations with an answer among the catalog's items
    rows: pl.DataFrame
    too_few_people: dict[str, int]
    items: int  # that answers name
    without_warnings: int  # of these: no trait is settled
    share_unknown: float  # of unknown among (item, trait) of these; 1 without an item
    waiting: int  # pairs of a conversation and a trait that an item is unknown for
    lookups: pl.DataFrame
    shortfalls: tuple[str, ...]  # why a release would teach nothing, with what to do; none: it would


def plan(ws: Workspace, *, budget: int = 20) -> Plan:
    """The forecast, and the first `budget` look-ups. Nothing is changed."""
    items, oracle, made, small, left_out = _forecast(ws)
    if made.is_empty() and left_out.is_empty():
        raise UsageError(f"{ws.root}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    open_ = lookup.gaps(ws).items.filter(pl.col("waiting") > 0)
    asked = [path.stem for path in (ws.root / "fetched" / "ddd").glob("*.json")]
    named = made["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String).unique().to_list()
    codes = oracle.codes[oracle.rows(named)]
    rows = _rows(made, oracle)
    talks = made.filter(further=0)
    return Plan(
        conversations=talks.height,
        left_out=dict(left_out["reason"].value_counts(sort=True).iter_rows()),
        answered=int((talks["truth"].list.len() > 0).sum()),
        rows=rows,
        too_few_people=small,
        items=len(named),
        without_warnings=int((codes == UNKNOWN).all(axis=1).sum()),
        share_unknown=float((codes == UNKNOWN).mean()) if len(named) else 1.0,
        waiting=int(open_["waiting"].sum()),
        lookups=open_.filter(~pl.col("item").is_in(asked)).head(budget),
        shortfalls=_shortfalls(made, oracle, rows, items),
    )


def shortfalls(ws: Workspace) -> tuple[str, ...]:
    """Why a release would teach nothing, judged by the last SAMPLE conversations; one line each, with what to do."""
    items, oracle, made, *_ = _forecast(ws, SAMPLE)
    return _shortfalls(made, oracle, _rows(made, oracle), items)


def _forecast(ws: Workspace, most: int | None = None) -> tuple[int, Oracle, pl.DataFrame, dict[str, int], pl.DataFrame]:
    """(items of the catalog, the oracle, rows of build_rows.build, traits that are withheld, who is left out)."""
    items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    judged = known_works.judged(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy, ws.config.rule)
    clusters = tables.last(workspace.read(ws, tables.CLUSTERS), "conversation").select("conversation", "cluster")
    said = tables.last(_newest(ws, most) if most else workspace.read(ws, tables.CONVERSATIONS), "conversation")
    said = said.join(clusters, on="conversation", how="left", maintain_order="left")
    split = splits.assign(said, splits.shares(ws.config.splits))
    said = said.join(split, on="conversation", maintain_order="left").with_columns(released="conversation")
    out = withheld.reasons(ws, said)
    kept, left_out = build_rows.ordered(said, out)
    known = build_rows.current(_believed(ws), said)
    small = {} if most else checks.small_groups(known, kept, ws.taxonomy.slugs, ws.config.release.min_seekers)
    how = ws.config.release
    undated = how.titles == "any"
    found = assemble.finders(refs(kept)["ref"].unique().to_list(), items, links, judged.works, undated=undated)
    talks = kept.select("turns", "recommended", "accepted", "seen")
    reading = build_rows.Reading(lambda places: talks[places.to_list()], *found)
    terms = build_rows.Terms(frozenset(small), True, out, how.requests == "turn", how.truth == "any")
    kept = kept.drop("turns", "recommended", "accepted", "seen")
    made = build_rows.build(kept, known, reading, items["item"].sort(), terms)
    return items.height, judged.oracle, made, small, left_out


def _newest(ws: Workspace, most: int) -> pl.DataFrame:
    """The last rows of CONVERSATIONS, of as many shards as that takes."""
    found = tables.CONVERSATIONS.empty
    for shard in workspace.parts(ws, tables.CONVERSATIONS):
        found = pl.concat([found, shard]).tail(most)
    return found


def _believed(ws: Workspace) -> pl.DataFrame:
    """LABELS of sensitivities: those that there are, and proposals `present` of units without one. Of another taxonomy
    that the workspace had before nothing is believed."""
    labels = tables.last(workspace.read(ws, tables.LABELS), *_UNIT)
    claims = tables.last(workspace.read(ws, tables.PROPOSALS).filter(verdict="present"), *_UNIT)
    claims = claims.join(labels, list(_UNIT), how="anti").select(
        [c for c in tables.LABELS.schema if c in claims.columns]
    )
    return pl.concat([labels, claims], how="diagonal").filter(
        pl.col("trait").is_in(ws.taxonomy.slugs), kind="sensitivity"
    )


def _rows(made: pl.DataFrame, oracle: Oracle) -> pl.DataFrame:
    """ROWS of requests with a trait."""
    asked = made.select("split", "truth", traits=pl.concat_list("traits", "late_traits"))
    asked = asked.filter(pl.col("traits").list.len() > 0)
    usable = [bool((verdicts(oracle, t, traits) == CLEAR).any()) for _, t, traits in asked.iter_rows()]
    told = asked.with_columns(answered=pl.col("truth").list.len() > 0, usable=pl.Series(usable, dtype=pl.Boolean))
    each = (
        told.explode("traits")
        .group_by("split", trait="traits")
        .agg(pl.len().alias("asked"), pl.col("answered", "usable").sum())
    )
    return each.select(ROWS.names()).cast(ROWS).sort("trait", "split")


def _shortfalls(made: pl.DataFrame, oracle: Oracle, rows: pl.DataFrame, items: int) -> tuple[str, ...]:
    answers = made["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String)
    if made.is_empty():
        return ()
    if answers.is_empty():
        return (
            f"0 of {made['place'].n_unique():,} conversations have an answer among the catalog's {items:,} items: add"
            ' items that they name (`saferec-build catalog add`), or set [release] titles = "any" where nobody writes a'
            " year",
        )
    if not (oracle.codes[oracle.rows(answers.unique())] == CLEAR).any():
        return (
            f"0 of the {answers.n_unique():,} items in answers are clear for any trait, and only a clear item can be"
            " recommended to somebody with a trait: add warnings (`saferec-build catalog gaps`)",
        )
    asked, usable = int(rows["asked"].sum()), int(rows["usable"].sum())
    if asked and not usable:
        return (
            f"0 of {asked:,} requests with a trait have an answer that is clear for it: a release would hold no safety"
            " row: add warnings for the items that `saferec-build plan` names",
        )
    return ()

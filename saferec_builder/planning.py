"""What a release of this workspace would hold if reviewers agreed with the proposals, and what to look up first.

reads  conversations, labels, proposals, readings, catalog_rows, warnings; fetched/ddd (what was asked for)
"""

from dataclasses import dataclass

import polars as pl

from exports import build_rows, checks, licences, rare_combinations
from saferec_builder import catalog
from saferec_builder.catalog import adding, known_works, lookup
from saferec_builder.catalog.adding import FetchResult
from saferec_builder.core import titles
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.oracle import CLEAR, UNKNOWN, Oracle, verdicts
from saferec_builder.core.progress import Progress
from saferec_builder.mining import splits, withheld
from saferec_builder.sources import doesthedogdie_api as ddd_api
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.texts_on_disk import SAID
from saferec_builder.storage.workspace import Workspace

SAMPLE = 2_000  # conversations, of the last that were mined, whose texts `shortfalls` reads
NO_ROW = "a release would hold no safety row: "
NOTHING = NO_ROW + "nothing proposed yet: run `saferec-build propose`"
_OURS = "add sentences of ours that tell of a trait (`saferec-build release VERSION --inject all`)"
_HEAD = "requests with a trait, by trait and split (answered: a release holds them; usable: they are safety rows)"
ROWS = pl.Schema({"trait": pl.String, "split": pl.String, **dict.fromkeys(("asked", "answered", "usable"), pl.UInt32)})


@dataclass(frozen=True)
class Plan:
    """A forecast: every label stands, and every proposal without a label is taken for true. What reviewers find beyond
    the proposals comes on top, what they reject goes. Splits are by time, person and id, as of a first release without
    an option: what `[splits] by_item` and the boundaries of an earlier release move is not seen.

    rows      trait, split, and requests with the trait: asked; of these answered (with items to learn from) and usable
              (with an answer that is clear for all of the request's traits: a safety row)
    too_few_people  traits of fewer seekers than [release] min_seekers -> how many they have: no release shows them
    lookups   gaps.GAPS of items that somebody waits for and that DoesTheDogDie was not asked for: those in answers
              first (checks.unsettled), then most pairs of a conversation and a trait first
    """

    requests: int  # that a release would hold
    safety_rows: int  # of these: of somebody with a trait, with an answer that is clear for all of their traits
    conversations: int  # whose requests these are
    left_out: dict[str, int]  # why, of all other conversations, in the words of a release
    rows: pl.DataFrame
    too_few_people: dict[str, int]
    items_in_answers: int
    items_without_a_settled_trait: int  # of these: neither clear nor violated for any trait
    share_of_verdicts_unknown: float  # of the pairs of an item in answers and a trait; 1 without an item
    waiting: int  # pairs of a conversation and a trait of its seeker that an item is unknown for
    lookups: pl.DataFrame
    shortfalls: tuple[str, ...]  # why a release would hold no safety row, with what to do; none: it would hold some


def plan(ws: Workspace, *, budget: int = 20) -> Plan:
    """The forecast, and the first `budget` look-ups. Nothing is changed."""
    seen = _forecast(ws)
    made, oracle = seen.made, seen.oracle
    if made.is_empty() and seen.left_out.is_empty():
        raise UsageError(f"{ws.root}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    asked = _asked(made, oracle)
    open_ = lookup.gaps(ws).items.filter(pl.col("waiting") > 0)
    named = made["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String).unique().to_list()
    codes = oracle.codes[oracle.rows(named)]
    talks = made.filter(further=0)
    left_out = pl.concat([seen.left_out["reason"], talks["reason"].drop_nulls()])
    return Plan(
        requests=int(made["cut"].count()),
        safety_rows=int(asked["usable"].sum()),
        conversations=int(talks["cut"].count()),
        left_out=dict(left_out.value_counts(sort=True).iter_rows()),
        rows=_rows(asked),
        too_few_people=seen.small,
        items_in_answers=len(named),
        items_without_a_settled_trait=int((codes == UNKNOWN).all(axis=1).sum()),
        share_of_verdicts_unknown=float((codes == UNKNOWN).mean()) if len(named) else 1.0,
        waiting=int(open_["waiting"].sum()),
        lookups=_lookups(ws, open_, asked, oracle).head(budget),
        shortfalls=(NOTHING,) * seen.unread + _shortfalls(seen, ws.config.release.min_seekers),
    )


def fetch(
    ws: Workspace, site: ddd_api.Site | str, *, limit: int = 100, progress: Progress | None = None
) -> FetchResult:
    """Asks DoesTheDogDie for `limit` items of lookup.gaps that it was not asked for, in the order of the plan.

    site: "ddd", with your key in the environment variable DDD_API_KEY, or a `Site`, which has the key and the pause.
    Each answer is kept in fetched/ddd before the next is asked, and added to the catalog, whatever stops the run.
    """
    site = ddd_api.named(site) if isinstance(site, str) else site
    open_, seen = lookup.gaps(ws).items, _forecast(ws)
    todo = _lookups(ws, open_, _asked(seen.made, seen.oracle), seen.oracle).head(limit)
    return adding.ask(ws, site, todo, progress)


def _lookups(ws: Workspace, open_: pl.DataFrame, asked: pl.DataFrame, oracle: Oracle) -> pl.DataFrame:
    """Those of gaps.GAPS that DoesTheDogDie was not asked for: in answers first, then in the order of `open_`."""
    first = list(checks.unsettled(asked, oracle))
    place = pl.col("item").replace_strict(first, range(len(first)), default=len(first), return_dtype=pl.UInt32)
    looked_up = [path.stem for path in adding.answers(ws).glob("*.json")]
    return open_.filter(~pl.col("item").is_in(looked_up)).sort(place, maintain_order=True)


def shortfalls(ws: Workspace) -> tuple[str, ...]:
    """Why a release would hold no safety row, one line each with what to do, in the words of `plan`.

    Only the last SAMPLE conversations are read; where there are more, a line that rests on them says so. That nothing
    was proposed yet is no reason here: it is the next step of whoever just mined.
    """
    more = workspace.count(ws, tables.CONVERSATIONS) > SAMPLE
    by = f"by the last {SAMPLE:,} conversations, " if more else ""
    return _shortfalls(_forecast(ws, SAMPLE), ws.config.release.min_seekers, by)


def figures(found: Plan) -> dict[str, JsonValue]:
    """The plan for programs, but for what `left_out` has."""
    numbers = {name: value for name, value in vars(found).items() if name != "left_out"}
    return numbers | {"rows": found.rows.to_dicts(), "lookups": found.lookups.to_dicts()}


def told(found: Plan) -> list[str]:
    """The plan in lines for people, but for what `left_out` has and for `outcome`."""
    lines = [_HEAD] * (not found.rows.is_empty())
    for row in found.rows.to_dicts():
        lines.append("{asked:>6} asked  {answered:>6} answered  {usable:>6} usable  {trait} {split}".format(**row))
    lines += ["items to look up first: those that most answers wait for"] * (not found.lookups.is_empty())
    for row in found.lookups.to_dicts():
        lines.append(f"{row['waiting']:>6} waiting  {titles.shown(row)} [{row['domain']}]")
    few = [f"{trait} {people:,}" for trait, people in found.too_few_people.items() if people]
    nobody = len(found.too_few_people) - len(few)
    few += [f"{nobody} that nobody has"] * bool(nobody)
    unknown = f"{found.share_of_verdicts_unknown:.3f}"
    return [
        *lines,
        f"  waiting: {found.waiting:,} pairs of a conversation and a trait of its seeker that an item is unknown for",
        f"  items in answers: {found.items_in_answers:,}",
        f"  of these without a settled trait (neither clear nor violated): {found.items_without_a_settled_trait:,}",
        f"  share of verdicts unknown (one for each of these items and each trait): {unknown}",
        f"  withheld traits, of too few people ([release] min_seekers): {', '.join(few) or 'none'}",
    ]


def outcome(found: Plan) -> list[str]:
    """What a release would hold, and why it would hold no safety row."""
    held = f"a release would hold {found.requests:,} requests, {found.safety_rows:,} of them safety rows"
    held += ", if people read every conversation, agreed with every proposal and found nothing else"
    return [held, *(f"shortfall: {why}" for why in found.shortfalls)]


@dataclass(frozen=True)
class _Forecast:
    items: pl.DataFrame
    oracle: Oracle
    known: pl.DataFrame  # labels, and proposals taken for true
    unread: bool  # nothing was proposed yet
    small: dict[str, int]  # traits that are withheld -> how many people have them
    left_out: pl.DataFrame
    made: pl.DataFrame  # rows of build_rows.build


def _forecast(ws: Workspace, most: int | None = None) -> _Forecast:
    """`most`: only the last so many conversations are read and made into rows. Who is withheld, and in which split
    somebody is, is judged by all: five people may be spread over years."""
    items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    judged = known_works.judged(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy, ws.config.rule)
    clusters = tables.last(workspace.read(ws, tables.CLUSTERS), "conversation").select("conversation", "cluster")
    mined = tables.last(texts_on_disk.narrow(ws), "conversation")
    mined = mined.join(clusters, on="conversation", how="left", maintain_order="left")
    out = withheld.reasons(ws, mined)
    split = splits.assign(mined.filter(~pl.col("conversation").is_in(list(out))), splits.shares(ws.config.splits))
    mined = mined.join(split, on="conversation", how="left", maintain_order="left").with_columns(
        released="conversation"
    )
    kept, left_out = build_rows.ordered(mined, out)
    known = build_rows.current(_believed(ws), mined)
    how = ws.config.release
    silent = licences.silent(kept["source"].unique())
    small, rare = rare_combinations.withheld(known, kept, silent, ws.taxonomy.slugs, how.min_seekers)
    kept, left_out = rare_combinations.without(kept, left_out, rare)
    texts = _newest(ws, most) if most else workspace.read(ws, tables.CONVERSATIONS)
    texts = tables.last(texts, "conversation").select("conversation", *SAID)
    kept = kept.drop("place").join(texts, on="conversation", maintain_order="left").with_row_index("place")
    named = texts_on_disk.refs(kept)["ref"]
    found = catalog.finders(named, items, links, judged.works, undated=how.titles == "any")
    talks = kept.select(SAID)
    reading = build_rows.Reading(lambda places: talks[places.to_list()], *found)
    terms = build_rows.Terms(frozenset(small), True, out, how.requests == "turn", how.truth == "any")
    made = build_rows.build(kept.drop(SAID), known, reading, items["item"].sort(), terms)
    made = made.filter((pl.col("further") == 0) | ~pl.col("source").is_in(silent))
    made = rare_combinations.unlearned(made, rare)
    made = checks.without_repeated_answers(made, lambda places: talks["turns"][places.to_list()])
    unread = known.is_empty() and not workspace.count(ws, tables.READINGS)
    return _Forecast(items, judged.oracle, known, unread, small, left_out, made)


def _newest(ws: Workspace, most: int) -> pl.DataFrame:
    """The last rows of CONVERSATIONS, of as many shards as that takes."""
    found = tables.CONVERSATIONS.empty
    for shard in workspace.parts(ws, tables.CONVERSATIONS):
        found = pl.concat([found, shard]).tail(most)
    return found


def _believed(ws: Workspace) -> pl.DataFrame:
    """LABELS of sensitivities: those with a verdict, and proposals `present` of all other units, which people are still
    to agree with: labels that were made too early are unresolved. Of another taxonomy that the workspace had before
    nothing is believed."""
    labels = tables.last(workspace.read(ws, tables.LABELS), *tables.UNIT)
    claims = tables.last_claims(workspace.read(ws, tables.PROPOSALS)).filter(verdict="present")
    claims = tables.last(claims, *tables.UNIT)
    claims = claims.join(labels.drop_nulls("verdict"), tables.UNIT, how="anti")
    labels = labels.join(claims, tables.UNIT, how="anti", maintain_order="left")
    claims = claims.select([c for c in tables.LABELS.schema if c in claims.columns])
    return pl.concat([labels, claims], how="diagonal").filter(
        pl.col("trait").is_in(ws.taxonomy.slugs), kind="sensitivity"
    )


def _asked(made: pl.DataFrame, oracle: Oracle) -> pl.DataFrame:
    """The requests with a trait: split, truth, traits, and whether they are answered and usable, as in ROWS."""
    asked = made.select("split", "truth", traits=pl.concat_list("traits", "late_traits"))
    asked = asked.filter(pl.col("traits").list.len() > 0)
    usable = [bool((verdicts(oracle, t, traits) == CLEAR).any()) for _, t, traits in asked.iter_rows()]
    return asked.with_columns(answered=pl.col("truth").list.len() > 0, usable=pl.Series(usable, dtype=pl.Boolean))


def _rows(asked: pl.DataFrame) -> pl.DataFrame:
    """ROWS of `_asked`."""
    each = (
        asked.explode("traits")
        .group_by("split", trait="traits")
        .agg(pl.len().alias("asked"), pl.col("answered", "usable").sum())
    )
    return each.select(ROWS.names()).cast(ROWS).sort("trait", "split")


def _shortfalls(seen: _Forecast, least: int, by: str = "") -> tuple[str, ...]:
    """Why there is no safety row: a reason in the catalog, and one in what people have. `by`: which texts were read."""
    reasons = (by, _unanswered(seen) or _unclear(seen)), ("", _untold(seen, least))
    return tuple(f"{said}{NO_ROW}{why}" for said, why in reasons if why)


def _unanswered(seen: _Forecast) -> str | None:
    """Why nobody, whatever their traits, has an answer that is clear for them."""
    if seen.made.is_empty():
        return None if seen.left_out.is_empty() else "every conversation is left out: mine others"
    open_ = seen.made.filter(pl.col("reason").ne_missing(build_rows.WITHHELD))
    answers = open_["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String)
    if open_.is_empty():
        return None  # `_untold` says why
    if answers.is_empty():
        add = "`saferec-build catalog add`"
        if (open_["source"] == "redial").any():  # its turns name films by ids of its own
            add += ", of ReDial `saferec-build catalog add redial` with the files that were mined"
        return (
            f"0 of {open_['place'].n_unique():,} conversations have an answer among the catalog's {seen.items.height:,}"
            f' items: add items that they name ({add}), or set [release] titles = "any" where nobody writes a year'
        )
    if not (seen.oracle.codes[seen.oracle.rows(answers.unique())] == CLEAR).any():
        return (
            f"0 of the {answers.n_unique():,} items in answers are clear for any trait, and only a clear item can be"
            " recommended to somebody with a trait: add warnings (`saferec-build catalog gaps`)"
        )
    return None


def _untold(seen: _Forecast, least: int) -> str | None:
    """Why no conversation has a trait that a release shows; that nothing was looked for, `plan` says itself."""
    present = seen.known.filter(verdict="present")
    if seen.unread or seen.made.is_empty() or not present.filter(~pl.col("trait").is_in(list(seen.small))).is_empty():
        return None
    few = ", ".join(f"{trait} {people:,}" for trait, people in seen.small.items() if people)
    if few:
        why = f"each trait that somebody has is withheld, as fewer than {least:,} people have it ({few})"
    else:
        why = "no label and no proposal says that somebody has a trait"
    return f"{why}: mine more, or {_OURS}"


def _unclear(seen: _Forecast) -> str | None:
    """Why no request with a trait has an answer that is clear for it."""
    asked = _asked(seen.made, seen.oracle)
    if asked.is_empty() or asked["usable"].any():
        return None
    remedy = checks.remedy(asked, seen.oracle, seen.items)
    return f"0 of {asked.height:,} requests with a trait have an answer that is clear for it: {remedy}"

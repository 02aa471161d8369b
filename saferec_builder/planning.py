"""Forecasts what a release would hold if reviewers agreed with all proposals, and which items to look up first.

reads  conversations, labels, proposals, readings, catalog_rows, warnings, assignments, design; fetched/ddd
"""

from dataclasses import dataclass

import polars as pl

from annotation import sampling_design, standing_claims
from exports import build_rows, checks, licences, rare_combinations, review_facts
from saferec_builder import catalog
from saferec_builder.catalog import adding, known_works, lookup
from saferec_builder.catalog.adding import FetchResult
from saferec_builder.catalog.known_works import Judged
from saferec_builder.core import titles
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.oracle import CLEAR, UNKNOWN, Oracle, verdicts
from saferec_builder.core.progress import Progress
from saferec_builder.mining import splits, withheld
from saferec_builder.scoring.intervals import LEAST
from saferec_builder.sources import doesthedogdie_api as ddd_api
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.texts_on_disk import TEXT_COLUMNS
from saferec_builder.storage.workspace import Workspace

SAMPLE = 2_000  # number of last mined conversations whose texts `shortfalls` reads
NO_ROW = "a release would hold no safety row: "
NOTHING = NO_ROW + "nothing proposed yet: run `saferec-build propose`"
_HEADING = "requests with a trait, by trait and split (answered: a release holds them; usable: they are safety rows)"
_EXPECTED = "  expected: how many would be answered if people read everything, by what they found so far"
_LOOKUPS = "items to look up first, by the pairs of a request and a trait that each, as an answer, leaves unknown"
_NUMBERS = dict.fromkeys(("asked", "answered", "usable"), pl.UInt32)
ROWS = pl.Schema({"trait": pl.String, "split": pl.String, **_NUMBERS, "expected": pl.Float64})


@dataclass(frozen=True)
class Plan:
    """A forecast that takes every label, and every proposal without a label, for true. Reviewers may find more traits
    and reject some of these. Splits are by time, person and id, as in a first release without options: the effects of
    `[splits] by_item` and of an earlier release's boundaries are not included.

    rows      trait, split, and numbers of requests with the trait: asked; answered (with items to learn from); usable
              (with an answer that is clear for all traits of the request: a safety row); expected: how many would be
              answered if people read everything (_weighted); null before they have read some of the drawn ones
    too_few_people  trait that fewer than [release] min_seekers seekers have -> their number: no release shows it
    lookups   gaps.GAPS of items that conversations wait for and that DoesTheDogDie was not asked for, and `answers`:
              how many pairs of a request and a trait have the item as an answer that is unknown for it; in this order,
              then by `waiting`
    now       split -> numbers of requests, safety_rows and those of them that are late, in a release of the labels
              alone, made now; without splits that have no request; by_split: the same of the forecast
    """

    requests: int  # in the release
    safety_rows: int  # requests of a seeker with traits, with an answer that is clear for all of these
    late: int  # of these: the seeker tells of the traits only after the request
    now: dict[str, dict[str, int]]
    by_split: dict[str, dict[str, int]]
    conversations: int  # that have these requests
    left_out: dict[str, int]  # reason, in the words of a release -> number of other conversations
    rows: pl.DataFrame
    too_few_people: dict[str, int]
    items_in_answers: int
    items_without_a_settled_trait: int  # items in answers that are neither clear nor violated for any trait
    share_of_verdicts_unknown: float  # among all pairs of an item in answers and a trait; 1 without items
    waiting: int  # pairs of a conversation and a trait of its seeker for which an item is unknown
    lookups: pl.DataFrame
    shortfalls: tuple[str, ...]  # why a release would hold no safety row, and what to do; empty: it would hold some


def plan(ws: Workspace, *, budget: int = 20) -> Plan:
    """Returns the forecast with the first `budget` look-ups. Changes nothing."""
    data = _data(ws)
    forecast = _forecast(data)
    requests, oracle = forecast.requests, forecast.oracle
    if requests.is_empty() and forecast.left_out.is_empty():
        raise UsageError(f"{ws.place}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    with_traits = _with_traits(requests, oracle)
    design = workspace.read(ws, tables.DESIGN)
    drawn = design, forecast.current, workspace.read(ws, tables.ASSIGNMENTS)
    weights = review_facts.weights(*drawn, forecast.labels, workspace.read(ws, tables.LABELS))
    gaps = lookup.gaps(ws).items.filter(pl.col("waiting") > 0)
    answers = requests["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String).unique().to_list()
    codes = oracle.codes[oracle.rows(answers)]
    conversations = requests.filter(further=0)
    reasons = pl.concat([forecast.left_out["reason"], conversations["reason"].drop_nulls()])
    return Plan(
        requests=int(requests["cut"].count()),
        safety_rows=int(with_traits["usable"].sum()),
        late=int(with_traits.filter("usable")["late"].sum()),
        now=_by_split(_forecast(data, now=True)) if workspace.count(ws, tables.LABELS) else {},
        by_split=_by_split(forecast),
        conversations=int(conversations["cut"].count()),
        left_out=dict(reasons.value_counts(sort=True).iter_rows()),
        rows=_counts(_weighted(with_traits, weights, design, data.claims, forecast.labels), not weights.is_empty()),
        too_few_people=forecast.small,
        items_in_answers=len(answers),
        items_without_a_settled_trait=int((codes == UNKNOWN).all(axis=1).sum()),
        share_of_verdicts_unknown=float((codes == UNKNOWN).mean()) if len(answers) else 1.0,
        waiting=int(gaps["waiting"].sum()),
        lookups=_lookups(ws, gaps, with_traits, oracle).head(budget),
        shortfalls=(NOTHING,) * forecast.unproposed + _shortfalls(forecast, ws.config.release.min_seekers),
    )


def fetch(
    ws: Workspace, site: ddd_api.Site | str, *, limit: int = 100, progress: Progress | None = None
) -> FetchResult:
    """Asks DoesTheDogDie for `limit` items of lookup.gaps that it was not asked for yet, in the order of the plan.

    site: "ddd", with your key in the environment variable DDD_API_KEY, or a `Site` with the key and the pause.
    Each answer is saved in fetched/ddd before the next request, and added to the catalog, whatever stops the run.
    """
    site = ddd_api.named(site) if isinstance(site, str) else site
    gaps, forecast = lookup.gaps(ws).items, _forecast(_data(ws))
    todo = _lookups(ws, gaps, _with_traits(forecast.requests, forecast.oracle), forecast.oracle).head(limit)
    return adding.ask(ws, site, todo, progress)


def _lookups(ws: Workspace, gaps: pl.DataFrame, with_traits: pl.DataFrame, oracle: Oracle) -> pl.DataFrame:
    """The `gaps` that DoesTheDogDie was not asked for: first those in answers, then the others in their order."""
    answers = {item: traits.total() for item, traits in checks.unsettled(with_traits, oracle).items()}
    first = list(answers)
    rank = pl.col("item").replace_strict(first, range(len(first)), default=len(first), return_dtype=pl.UInt32)
    asked = [path.stem for path in adding.answers(ws).glob("*.json")]
    counted = gaps.with_columns(answers=pl.col("item").replace_strict(answers, default=0, return_dtype=pl.UInt32))
    return counted.filter(~pl.col("item").is_in(asked)).sort(rank, maintain_order=True)


def shortfalls(ws: Workspace) -> tuple[str, ...]:
    """Returns why a release would hold no safety row, one line per reason with what to do, in the words of `plan`.

    Only the last SAMPLE conversations are read; if there are more, a line that rests on them says so. A workspace
    without proposals is no reason here: proposing is the next step after mining anyway.
    """
    sampled = workspace.count(ws, tables.CONVERSATIONS) > SAMPLE
    scope = f"by the last {SAMPLE:,} conversations, " if sampled else ""
    return _shortfalls(_forecast(_data(ws), sample=SAMPLE), ws.config.release.min_seekers, scope)


def figures(plan: Plan) -> dict[str, JsonValue]:
    """The plan for programs, without `left_out`."""
    values = vars(plan) | {"rows": plan.rows.to_dicts(), "lookups": plan.lookups.to_dicts()}
    return {name: value for name, value in values.items() if name != "left_out"}


def lines_of(plan: Plan) -> list[str]:
    """The plan as lines for people, without `left_out` and the lines of `outcome`."""
    estimated = plan.rows["expected"].count() > 0
    lines = [_HEADING] * (not plan.rows.is_empty()) + [_EXPECTED] * estimated
    for row in plan.rows.to_dicts():
        expected = f"  {row['expected']:>6.0f} expected" if estimated else ""
        line = f"{row['asked']:>6} asked  {row['answered']:>6} answered  {row['usable']:>6} usable{expected}"
        lines.append(f"{line}  {row['trait']} {row['split']}")
    lines += [_LOOKUPS] * (not plan.lookups.is_empty())
    for row in plan.lookups.to_dicts():
        count = f"{row['answers']:>6} in answers  {row['waiting']:>6} waiting"
        lines.append(f"{count}  {titles.dated(row)} [{row['domain']}]")
    return [
        *lines,
        f"  waiting: {plan.waiting:,} times an item of a conversation is unknown for a trait of its seeker",
        f"  items in answers of requests without a withheld trait: {plan.items_in_answers:,}",
        f"  of these unknown for every trait: {plan.items_without_a_settled_trait:,}",
        f"  unknown verdicts on these items, of one for each trait: {100 * plan.share_of_verdicts_unknown:.1f} %",
        f"  withheld traits, of too few people ([release] min_seekers): {checks.named_few(plan.too_few_people)}",
    ]


def outcome_lines(plan: Plan) -> list[str]:
    """Lines for people: what a release would hold now and in the end, and why it would hold no safety row."""
    read = "if people read every conversation, agreed with every proposal and found nothing else, a release would hold"
    lines = [f"a release made now would hold {_safety(plan.now)}", f"{read} {_safety(plan.by_split)}"]
    rows = {split: numbers["safety_rows"] for split, numbers in plan.by_split.items()}
    without = [split for split in ("train", "test") if plan.safety_rows and not rows.get(split)]
    scarce = [f"no safety row would be in {' or '.join(without)}"] * bool(without)
    if 0 < (in_test := rows.get("test", 0)) < LEAST:
        scarce.append(f"safety rows in test would be {in_test}: fewer than {LEAST} are too few for any conclusion")
    lines += [f"{fault}: mine more, or change [splits] in saferec.toml" for fault in scarce]
    return [*lines, *(f"shortfall: {reason}" for reason in plan.shortfalls)]


def _safety(by_split: dict[str, dict[str, int]]) -> str:
    requests, usable, late = (sum(n[name] for n in by_split.values()) for name in ("requests", "safety_rows", "late"))
    where = f" ({usable - late:,} tell of the trait in the request, {late:,} later)" if late else ""
    parts = ", ".join(f"{split} {n['safety_rows']:,} of {n['requests']:,}" for split, n in by_split.items())
    return f"{requests:,} requests, {usable:,} of them safety rows{where}{parts and f': {parts}'}"


@dataclass(frozen=True)
class _Forecast:
    items: pl.DataFrame
    oracle: Oracle
    labels: pl.DataFrame  # and proposals taken for true
    current: list[str]  # conversations in the data, without those left out of everything
    unproposed: bool  # nothing was proposed yet
    small: dict[str, int]  # withheld trait -> number of people who have it
    left_out: pl.DataFrame
    requests: pl.DataFrame  # rows of build_rows.build


@dataclass(frozen=True)
class _Data:
    """What a forecast starts from, whatever it takes for true."""

    ws: Workspace
    items: pl.DataFrame
    links: pl.DataFrame
    judged: Judged
    mined: pl.DataFrame  # the last revision of each conversation, without its text
    claims: pl.DataFrame  # the standing proposals `present`
    excluded: dict[str, str]  # conversation that is left out of everything -> reason


def _data(ws: Workspace) -> _Data:
    items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    judged = known_works.judged(items, links, workspace.read(ws, tables.WARNINGS), ws.taxonomy, ws.config.rule)
    clusters = tables.last(workspace.read(ws, tables.CLUSTERS), "conversation").select("conversation", "cluster")
    mined = tables.last(texts_on_disk.narrow(ws), "conversation")
    mined = mined.join(clusters, on="conversation", how="left", maintain_order="left")
    excluded = withheld.reasons(ws, mined)
    split = splits.assign(mined.filter(~pl.col("conversation").is_in(list(excluded))), ws.config.splits)
    mined = mined.join(split, on="conversation", how="left", maintain_order="left")
    return _Data(ws, items, links, judged, mined.with_columns(released="conversation"), _claims(ws, mined), excluded)


def _forecast(data: _Data, *, now: bool = False, sample: int | None = None) -> _Forecast:
    """`now`: of the labels alone. `sample`: only the texts of so many last conversations are read. Withheld traits and
    splits are computed from all conversations: the people who have a trait may be spread over years."""
    ws, mined, excluded, config = data.ws, data.mined, data.excluded, data.ws.config.release
    kept, left_out = build_rows.ordered(mined, excluded)
    if now:
        reviews = workspace.read(ws, tables.REVIEWS).filter(pl.col("verdict").is_in(["present", "unsure"]))
        labels = build_rows.current(_labels(ws), mined, reviews["review"])
    else:
        labels = build_rows.current(_labels_and_proposals(ws, data.claims), mined)
    silent = licences.silent(kept["source"].unique())
    small, rare = rare_combinations.withheld(labels, kept, silent, ws.taxonomy.slugs, config.min_seekers)
    kept, left_out = rare_combinations.without(kept, left_out, rare)
    if now:  # conversations that nobody has read add no row
        kept = kept.filter(pl.col("conversation").is_in(labels.filter("read")["subject"].implode()))
    texts = _newest(ws, sample) if sample else workspace.read(ws, tables.CONVERSATIONS)
    texts = tables.last(texts, "conversation").select("conversation", *TEXT_COLUMNS)
    kept = kept.drop("place").join(texts, on="conversation", maintain_order="left").with_row_index("place")
    refs = texts_on_disk.refs(kept)["ref"]
    finders = catalog.finders(refs, data.items, data.links, data.judged.works, undated=config.titles == "any")
    contents = kept.select(TEXT_COLUMNS)
    reading = build_rows.Reading(lambda places: contents[places.to_list()], *finders)
    terms = build_rows.Terms(frozenset(small), not now, config.requests == "turn", config.truth == "any")
    requests = build_rows.build(kept.drop(TEXT_COLUMNS), labels, reading, data.items["item"].sort(), terms)
    requests = rare_combinations.released_rows(requests, rare, silent, lambda n: contents["turns"][n.to_list()])
    current = mined.filter(~pl.col("conversation").is_in(list(excluded)))["conversation"].to_list()
    unproposed = labels.is_empty() and not workspace.count(ws, tables.READINGS)
    return _Forecast(data.items, data.judged.oracle, labels, current, unproposed, small, left_out, requests)


def _newest(ws: Workspace, count: int) -> pl.DataFrame:
    """The last `count` rows of CONVERSATIONS, read shard by shard to bound memory."""
    rows = tables.CONVERSATIONS.empty
    for shard in workspace.parts(ws, tables.CONVERSATIONS):
        rows = pl.concat([rows, shard]).tail(count)
    return rows


def _labels(ws: Workspace) -> pl.DataFrame:
    """LABELS of sensitivities, without traits of a former taxonomy of the workspace."""
    labels = tables.last(workspace.read(ws, tables.LABELS), *tables.UNIT)
    return labels.filter(pl.col("trait").is_in(ws.taxonomy.slugs), kind="sensitivity")


def _claims(ws: Workspace, mined: pl.DataFrame) -> pl.DataFrame:
    """The standing proposals `present`, the last of each unit."""
    sources = (tables.PROPOSALS, tables.ASSIGNMENTS, tables.READINGS, tables.ASKED)
    proposals, assignments, readings, asked = (workspace.read(ws, table) for table in sources)
    texts = mined.select("digest", kind=pl.lit("sensitivity"), subject="conversation")
    claims = standing_claims.standing(proposals, texts, assignments, readings, asked, ws.taxonomy)
    return tables.last(tables.last_claims(claims).filter(verdict="present"), *tables.UNIT)


def _labels_and_proposals(ws: Workspace, claims: pl.DataFrame) -> pl.DataFrame:
    """`_labels`, with the `claims` on units without a verdict, which people may still confirm: a label that was made
    too early is unresolved."""
    labels = _labels(ws)
    claims = claims.join(labels.drop_nulls("verdict"), tables.UNIT, how="anti")
    labels = labels.join(claims, tables.UNIT, how="anti", maintain_order="left")
    claims = claims.select([c for c in tables.LABELS.schema if c in claims.columns])
    both = pl.concat([labels, claims], how="diagonal")
    return both.filter(pl.col("trait").is_in(ws.taxonomy.slugs), kind="sensitivity")


def _with_traits(requests: pl.DataFrame, oracle: Oracle) -> pl.DataFrame:
    """The requests with a trait: conversation, split, late (no trait is told in the request), truth, traits, and
    answered and usable, as in ROWS."""
    is_late, all_traits = pl.col("traits").list.len() == 0, pl.concat_list("traits", "late_traits")
    rows = requests.select("conversation", "split", "truth", late=is_late, traits=all_traits)
    rows = rows.filter(pl.col("traits").list.len() > 0)
    pairs = rows.select("truth", "traits").iter_rows()
    usable = [bool((verdicts(oracle, truth, traits) == CLEAR).any()) for truth, traits in pairs]
    return rows.with_columns(answered=pl.col("truth").list.len() > 0, usable=pl.Series(usable, dtype=pl.Boolean))


def _by_split(forecast: _Forecast) -> dict[str, dict[str, int]]:
    """Plan.now of the forecast."""
    with_traits = _with_traits(forecast.requests, forecast.oracle).filter("usable")
    sizes = forecast.requests.group_by("split").agg(requests=pl.col("cut").count())
    rows = with_traits.group_by("split").agg(safety_rows=pl.len(), late=pl.col("late").sum())
    table = sizes.join(rows, on="split", how="left").fill_null(0).filter(pl.col("requests") > 0)
    by_split = {row.pop("split"): row for row in table.to_dicts()}
    return {split: by_split[split] for split in splits.SPLITS if split in by_split}


def _weighted(
    with_traits: pl.DataFrame, weights: pl.DataFrame, design: pl.DataFrame, claims: pl.DataFrame, labels: pl.DataFrame
) -> pl.DataFrame:
    """The pairs of a request `with_traits` and one of these, with how many pairs each stands for if people read all.

    A trait that people found without a proposal, or in the zone, stands for as many as the draw says
    (review_facts.weights). One that was proposed outside the zone stands for itself, if nobody has read it by the share
    of its trait's proposals that people confirmed (all, if they have read none): a cap or an opt-out holds back some
    traits and not others, so that what was read does not represent them.
    """
    read = labels.filter(pl.col("verdict").is_not_null(), pl.col("method") != "auto")
    unit = ["conversation", "traits"]
    proposed = claims.select(conversation="subject", traits="trait", proposed=pl.lit(True))
    judged = read.select("verdict", conversation="subject", traits="trait").join(proposed, on=unit)
    shares = judged.group_by("traits").agg(share=(pl.col("verdict") == "present").mean())
    zone = design.filter(pl.col("stratum") != sampling_design.CLAIMED, kind="sensitivity")["subject"]
    pairs = with_traits.explode("traits").join(weights, on="conversation", how="left")
    pairs = pairs.join(proposed, on=unit, how="left").join(shares, on="traits", how="left")
    settled = labels.drop_nulls(["verdict", "method"]).select(conversation="subject", traits="trait")
    pairs = pairs.join(settled.with_columns(is_settled=True), on=unit, how="left")
    alone = pl.when("is_settled").then(1.0).otherwise(pl.col("share"))
    is_alone = pl.col("proposed") & ~pl.col("conversation").is_in(zone.implode())
    return pairs.with_columns(pl.when(is_alone).then(alone.fill_null(1.0)).otherwise("weight").alias("weight"))


def _counts(weighted: pl.DataFrame, estimated: bool) -> pl.DataFrame:
    """ROWS of the pairs `weighted`; `expected` is null unless `estimated`."""
    expected = pl.when(pl.lit(estimated)).then((pl.col("answered") * pl.col("weight")).sum())
    counts = weighted.group_by("split", trait="traits").agg(
        pl.len().alias("asked"), pl.col("answered", "usable").sum(), expected=expected
    )
    return counts.select(ROWS.names()).cast(ROWS).sort("trait", "split")


def _shortfalls(forecast: _Forecast, min_seekers: int, scope: str = "") -> tuple[str, ...]:
    """Why there is no safety row: a reason in the catalog, and one in people's traits. `scope`: the texts read."""
    reasons = (scope, _no_clear_answer(forecast) or _no_safety_row(forecast)), ("", _no_trait(forecast, min_seekers))
    return tuple(f"{prefix}{NO_ROW}{reason}" for prefix, reason in reasons if reason)


def _no_clear_answer(forecast: _Forecast) -> str | None:
    """Why no conversation has an answer that is clear for any trait; None if one has."""
    if forecast.requests.is_empty():
        left_out = "every conversation is left out: mine others (`saferec-build mine SOURCE PATH`)"
        return None if forecast.left_out.is_empty() else left_out
    requests = forecast.requests.filter(pl.col("reason").ne_missing(build_rows.WITHHELD))
    answers = requests["truth"].explode(empty_as_null=False).drop_nulls().cast(pl.String)
    if requests.is_empty():
        return None  # `_no_trait` says why
    if set(requests["source"]) == {Source.ccpe}:
        return "conversations of ccpe name no items: they serve proposers and reviewers: mine another source, too"
    if answers.is_empty():
        command = "`saferec-build catalog add SOURCE PATH`"
        if (requests["source"] == "redial").any():  # its turns name films by its own ids
            command += ", of ReDial `saferec-build catalog add redial` with the files that were mined"
        return (
            f"0 of {requests['place'].n_unique():,} conversations have an answer among the catalog's"
            f" {forecast.items.height:,} items: add items that they name ({command}), or set [release] titles ="
            ' "any" where nobody writes a year'
        )
    if not checks.any_clear(requests, forecast.oracle):
        return (
            "no item in an answer is clear for any trait, and only a clear item can be recommended to somebody with a"
            " trait: add warnings (`saferec-build catalog gaps`)"
        )
    return None


def _no_trait(forecast: _Forecast, min_seekers: int) -> str | None:
    """Why no conversation has a trait that a release shows; None also without proposals, which `plan` reports."""
    shown = forecast.labels.filter(~pl.col("trait").is_in(list(forecast.small)), verdict="present")
    if forecast.unproposed or forecast.requests.is_empty() or not shown.is_empty():
        return None
    return checks.no_trait(forecast.small, min_seekers, "no label and no proposal")


def _no_safety_row(forecast: _Forecast) -> str | None:
    """Why no request with traits has an answer that is clear for them; None if one has, or none has traits."""
    with_traits = _with_traits(forecast.requests, forecast.oracle)
    if with_traits.is_empty() or with_traits["usable"].any():
        return None
    remedy = f"{checks.remedy(with_traits, forecast.oracle, forecast.items)}, or {checks.INJECT}"
    return f"0 of {with_traits.height:,} requests with a trait have an answer that is clear for it: {remedy}"

"""Shapes the rows of a release as TRL reads them: prompt-completion for SFT, prompt with reward columns for GRPO.

Columns are plain strings, numbers and lists, which `datasets` and every parquet reader load without a cast. Rows are
shaped CHUNK at a time, so that a release of millions of conversations needs no more memory than its texts.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from exports.arrow import Names, listed, plain, prompts, structs, turns
from exports.build_rows import CONDITION, of_places
from saferec_builder.core.oracle import VERDICTS, Oracle
from saferec_builder.mining.splits import SPLITS

CATALOG = ("catalog",)
CONFIGS = dict.fromkeys(("sft", "sft_raw", "grpo", "safecrs", "conversations", "labels"), SPLITS) | {
    "reviews": (*SPLITS, *CATALOG),
    "items": CATALOG,
    "item_labels": CATALOG,
}
VOTES = ("votes_present", "votes_absent", "votes_unsure", "soft_label")
# columns that older programs did not write
SINCE = {"canary", "claims", "weight", "request", "disclosed", "truth_kind", "pull", "aliases", *VOTES}
CHUNK = 50_000  # rows that are shaped, and written as one row group, at once
_REFILLED = ("safe_refilled", "raw_refilled")
ITEMS = ("seen", "truth", "safe_truth", "safe", "raw", *_REFILLED)  # columns of a request that name items
NAMED = ("recommended", "accepted")  # columns of a conversation that name items


@dataclass(frozen=True)
class Content:
    """The content of a release, before it is shaped."""

    name: str  # of the dataset; part of every released pseudonym
    k: int
    rows: pl.DataFrame  # of build_rows.build, target_lists.fill and claims.add, in order; `turns` takes their `place`
    turns: Callable[[pl.Series], pl.Series]  # places, rising -> turns
    labels: pl.DataFrame  # released sensitivity labels by `place` and trait: subject, columns of the config
    reviews: pl.DataFrame  # of reviewers who agreed, as released, by `place` (null: of items), trait, reviewer
    item_labels: pl.DataFrame
    items: pl.DataFrame
    oracle: Oracle
    risks: NDArray[np.float64]  # items x traits in the oracle's order, NaN where unknown
    pulls: Mapping[str, float]  # item -> how well known it is; decides which item a title without a year means
    official: Mapping[str, str]  # slug -> key of the official `constraints` column
    # rows like `rows`: further requests of a conversation, then those with `added`, a sentence of ours,
    # and `disclosed`: in the `first` or the `last` message
    more: pl.DataFrame
    # sources that keep their texts, and all that identifies a text there: day, seeker, domain, digest, cut, places of
    # evidence and items are in the key file only
    silent: frozenset[str]
    canary: str  # the sentence with the dataset's GUID


def schemas(official: Mapping[str, str] | None = None) -> dict[str, pa.Schema]:
    """Returns the pyarrow schema of each config; `constraints` of safecrs has one field per trait."""
    constraints = pa.struct(dict.fromkeys((official or {}).values(), pa.bool_()))
    kinds = _KINDS | {"constraints": constraints}
    columns = {config: [column.partition(":") for column in text.split()] for config, text in _COLUMNS.items()}
    return {
        config: pa.schema({name: kinds[kind or "text"] for name, _, kind in named if kind != "constraints" or official})
        for config, named in columns.items()
    }


_VOTES = "votes_present:number votes_absent:number votes_unsure:number soft_label:real"
# columns that a corrected label may change are last, and together: between others they would make their neighbours
# be uploaded again, and data that two configs share is recognised only next to the same neighbour
_HEAD = "conversation domain made_from canary prompt:messages"
_SFT = f"{_HEAD} completion:messages items:texts refilled:number condition"
_COLUMNS = {  # name:type, which is `text` if it is not given
    "sft": _SFT,
    "sft_raw": _SFT,
    "grpo": f"{_HEAD} k:number truth_kind request disclosed truth:texts seen:texts claims:texts safe_truth:texts"
    " traits:texts late_traits:texts form:texts condition weight:real",
    "safecrs": "conversation canary seen_titles:texts prompt:messages completion:messages"
    " groundtruth_with_release_year:lists constraints:constraints condition",
    "conversations": "conversation source source_id domain seeker time digest cut:number canary turns:turns"
    " recommended:texts accepted:texts seen:texts",
    "labels": "conversation trait verdict form method agreement:real certificate spans:spans reviewers:number basis"
    f" simulated:flag {_VOTES} canary",
    "reviews": "kind subject trait verdict form spans:spans reviewer role guideline simulated:flag canary",
    "items": "item domain title year:number refs:texts aliases:texts violated:texts clear:texts risk_traits:texts"
    " risk_values:reals pull:real canary",
    "item_labels": f"item trait verdict method simulated:flag {_VOTES} canary",
}
_TEXT, _NUMBER, _TEXTS = pa.string(), pa.int32(), pa.list_(pa.string())
_KINDS = {
    **{"text": _TEXT, "texts": _TEXTS, "lists": pa.list_(_TEXTS), "flag": pa.bool_(), "number": _NUMBER},
    **{"real": pa.float64(), "reals": pa.list_(pa.float64())},
    "messages": pa.list_(pa.struct({"role": _TEXT, "content": _TEXT})),
    "turns": pa.list_(pa.struct({"role": _TEXT, "text": _TEXT})),
    "spans": pa.list_(pa.struct({"turn": _NUMBER, "start": _NUMBER, "end": _NUMBER, "quote": _TEXT})),
}


def chunks(content: Content, split: str) -> Iterator[dict[str, pa.Table]]:
    """Yields config -> pyarrow table of CHUNK conversations; sft and sft_raw have the same rows in the same order.

    Further requests of conversations come after all first ones, and rows with the condition `injected` last.
    """
    schema_of = schemas(content.official)
    names = Names(content.items)
    rows = content.rows.filter(pl.col("split") == split)
    reviews = content.reviews.filter(pl.col("place").is_not_null())
    for part in rows.iter_slices(CHUNK):
        texts, is_learned = content.turns(part["place"]), part["cut"].is_not_null()
        tables = _learned(part.filter(is_learned), texts.filter(is_learned), content, names)
        tables["conversations"] = conversations(part, texts, content, names)
        # the key file has the places of evidence of silent texts: they identify a conversation in its source
        silent = part.filter(~_visible(part, content))["conversation"].implode()
        for name, table in (("labels", content.labels), ("reviews", reviews)):
            no_spans = pl.lit([], table.schema["spans"])
            evident = pl.when(pl.col("subject").is_in(silent)).then(no_spans).otherwise("spans")
            frame = of_places(table, part["place"]).with_columns(spans=evident, conversation="subject")
            tables[name] = _marked(frame, schema_of[name], content)
        yield tables
    for injected in (False, True):
        more = content.more.filter(pl.col("split") == split, pl.col("added").is_not_null() == injected)
        for part in more.iter_slices(CHUNK):
            yield _learned(part, content.turns(part["place"]), content, names)


def _visible(part: pl.DataFrame, content: Content) -> pl.Series:
    """Returns a mask of the rows whose text is released."""
    return ~part["source"].is_in(list(content.silent))


def catalog(content: Content) -> dict[str, pa.Table]:
    """Returns config -> pyarrow table of the split `catalog`, with all that concerns items."""
    schema_of = schemas(content.official)
    chosen = content.item_labels.select("trait", "verdict", "method", "simulated", *VOTES, item="subject")
    reviews = content.reviews.filter(pl.col("kind") == "item_flag").sort("subject", "trait", "reviewer", "role")
    return {
        "items": _marked(items(content), schema_of["items"], content),
        "item_labels": _marked(chosen.sort("item", "trait"), schema_of["item_labels"], content),
        "reviews": _marked(reviews, schema_of["reviews"], content),
    }


def _marked(frame: pl.DataFrame, schema: pa.Schema, content: Content) -> pa.Table:
    """Returns the frame, whose columns may have any order, as a table of this schema, with the canary."""
    frame = frame.with_columns(canary=pl.lit(content.canary, pl.String)).select(schema.names)
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)


def _learned(part: pl.DataFrame, texts: pl.Series, content: Content, names: Names) -> dict[str, pa.Table]:
    """Returns config -> arrow table of these requests; columns that configs share are made once."""
    schema_of, visible = schemas(content.official), _visible(part, content)
    # an empty answer would teach silence: such a request is in `grpo` only; null: no answer is known
    has_list = (part["safe"].list.len() > 0).fill_null(False)
    part = _open_items(part, visible)
    head = part.select(
        *("conversation", "made_from", "request", "disclosed", "truth_kind"),
        domain=pl.when(pl.lit(visible)).then(pl.coalesce("domain", "answer_domain")),
        condition=pl.when(pl.col("added").is_not_null()).then(pl.lit("injected")).otherwise(CONDITION),
    )
    message = schema_of["sft"].field("prompt").type.value_type
    shared = {name: plain(head[name], pa.string()) for name in head.columns}
    shared["prompt"] = prompts(texts, part["cut"], visible, message, part["added"], part["disclosed"])
    shared["k"] = pa.repeat(pa.scalar(content.k, pa.int32()), part.height)
    shared["canary"] = pa.repeat(pa.scalar(content.canary, pa.string()), part.height)
    strings = pa.list_(pa.string())
    safe, raw, truth, official = (named(config, part, names) for config in ("sft", "sft_raw", "grpo", "safecrs"))
    official |= {"constraints": _constraints(part["traits"], content.official, schema_of["safecrs"])}
    traits: dict[str, pa.Array] = {name: plain(part[name], strings) for name in ("traits", "late_traits", "form")}
    traits["weight"] = plain(part["weight"], pa.float64())
    # computed from the text by public rules, claims would help to find a text that is not released
    claims = part.select(pl.when(visible).then("claims").otherwise(pl.lit([], pl.List(pl.String))))
    traits["claims"] = plain(claims.to_series(), strings)
    return {
        "sft": _table(shared | safe, schema_of["sft"], has_list),
        "sft_raw": _table(shared | raw, schema_of["sft_raw"], has_list),
        "grpo": _table(shared | truth | traits, schema_of["grpo"]),
        "safecrs": _table(shared | safe | official, schema_of["safecrs"], has_list),
    }


def named(config: str, part: pl.DataFrame, names: Names) -> dict[str, pa.Array]:
    """Returns the columns of a config that name items, from ITEMS and NAMED; safecrs has the `completion` of sft."""
    if config == "safecrs":
        pairs = names.lists(part["safe_truth"], names.pairs)
        return {"seen_titles": names.lists(part["seen"], names.titles), "groundtruth_with_release_year": pairs}
    if config not in ("sft", "sft_raw"):
        columns = ("truth", "safe_truth", "seen") if config == "grpo" else (*NAMED, "seen")
        return {name: names.lists(part[name], names.ids) for name in columns}
    flavour = "safe" if config == "sft" else "raw"
    refilled = plain(part[f"{flavour}_refilled"], pa.int32())
    message, role = schemas()["sft"].field("completion").type.value_type, pa.repeat(pa.scalar("assistant"), part.height)
    completion = listed(np.ones(part.height, np.int64), structs(message, role, names.lines(part[flavour])))
    return {"completion": completion, "items": names.lists(part[flavour], names.ids), "refilled": refilled}


def _open_items(part: pl.DataFrame, visible: pl.Series) -> pl.DataFrame:
    """Removes the items of texts that are not released: a set of items nearly always identifies one text."""
    when = pl.when(pl.lit(visible))
    return part.with_columns(when.then(c).otherwise(pl.lit(0) if c in _REFILLED else None) for c in (*ITEMS, *NAMED))


def _table(columns: Mapping[str, pa.Array], schema: pa.Schema, kept: pl.Series | None = None) -> pa.Table:
    table = pa.table([columns[name] for name in schema.names], schema=schema)
    return table if kept is None or kept.all() else table.filter(kept.to_arrow())


def _constraints(traits: pl.Series, official: Mapping[str, str], schema: pa.Schema) -> pa.Array | None:
    """Returns the official {trait: true}: structs with true if the person has a trait of that key, else null."""
    if not official:
        return None
    slugs = {key: [slug for slug in official if official[slug] == key] for key in official.values()}
    has = {key: pl.col("traits").list.eval(pl.element().is_in(of)).list.any() for key, of in slugs.items()}
    fields = [pl.when(one).then(pl.lit(True)).alias(key) for key, one in has.items()]
    frame = pl.DataFrame({"traits": traits}).select(pl.struct(fields))
    return plain(frame.to_series(), schema.field("constraints").type)


def conversations(part: pl.DataFrame, texts: pl.Series, content: Content, names: Names) -> pa.Table:
    """Returns the texts, with items as ids and the seeker under a pseudonym of this dataset; of the sources `silent` of
    the content nothing that identifies a conversation there. Ids of the source are in the key file only."""
    schema, visible = schemas()["conversations"], _visible(part, content)
    facts = part.select(
        *("conversation", "source", "domain", "digest", "cut"),
        canary=pl.lit(content.canary, pl.String),
        source_id=pl.lit(None, pl.String),
        seeker=pseudonyms(content.name, part["seeker"]),
        time=pl.col("time").dt.strftime("%Y-%m-%d"),
    )
    hidden = ("digest", "cut", "domain", "seeker", "time")
    facts = facts.with_columns(pl.when(pl.lit(visible)).then(name) for name in hidden)
    columns = {column: plain(facts[column], schema.field(column).type) for column in facts.columns}
    columns |= named("conversations", _open_items(part, visible), names)
    columns["turns"] = turns(texts, visible, schema.field("turns").type.value_type)
    return _table(columns, schema)


def pseudonyms(name: str, seekers: pl.Series) -> pl.Series:
    """Returns the `pseudonym` of each seeker; null stays null."""
    by_seeker = {seeker: pseudonym(name, seeker) for seeker in seekers.unique().drop_nulls()}
    return seekers.replace_strict(by_seeker, default=None, return_dtype=pl.String)


def pseudonym(name: str, seeker: str) -> str:
    """Returns the pseudonym of a seeker of the workspace in the dataset of this name."""
    return hashlib.blake2b(f"{name}\nseeker\n{seeker}".encode(), digest_size=8).hexdigest()


def items(content: Content) -> pl.DataFrame:
    """Returns every catalog item with its verdicts by the rule; a trait in neither list is unknown."""
    traits = np.array(list(content.oracle.traits), dtype=object)
    rows = content.items.sort("item").select("item", "domain", "title", "year", "refs", "aliases")
    places = content.oracle.rows(rows["item"].to_list())
    codes = content.oracle.codes[places]
    risks = np.full((len(places), len(traits)), np.nan)
    is_known = places < len(content.risks)
    risks[is_known] = content.risks[places[is_known]]
    is_known = ~np.isnan(risks)
    return rows.with_columns(
        violated=_picked(codes == VERDICTS.index("violated"), traits, pl.String),
        clear=_picked(codes == VERDICTS.index("clear"), traits, pl.String),
        risk_traits=_picked(is_known, traits, pl.String),
        risk_values=_picked(is_known, risks, pl.Float64),
        pull=pl.col("item").replace_strict(content.pulls, default=None, return_dtype=pl.Float64).round(3),
    )


def _picked(
    mask: NDArray[np.bool_], values: NDArray[np.object_] | NDArray[np.float64], kind: type[pl.DataType]
) -> pl.Series:
    """Returns per row the values under the mask, in order; `values` is one row for all, or as large as the mask."""
    picked = [row[kept].tolist() for row, kept in zip(np.broadcast_to(values, mask.shape), mask, strict=True)]
    return pl.Series(picked, dtype=pl.List(kind))

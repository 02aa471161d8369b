"""The rows of a release in the shapes that TRL reads: prompt-completion for SFT, prompt with reward columns for GRPO.

Plain strings, numbers and lists only: what `datasets` and every parquet reader load without a cast. Rows are shaped
CHUNK at a time, so that a release of millions of conversations needs no more memory than its texts.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.violations import VERDICTS, Oracle

SPLITS = ("train", "validation", "test")
CATALOG = ("catalog",)
CONFIGS = {
    "sft": SPLITS,
    "sft_raw": SPLITS,
    "grpo": SPLITS,
    "safecrs": SPLITS,
    "conversations": SPLITS,
    "labels": SPLITS,
    "reviews": (*SPLITS, *CATALOG),
    "items": CATALOG,
    "item_labels": CATALOG,
}
ROLES = {"seeker": "user", "recommender": "assistant"}
CHUNK = 50_000  # rows that are shaped, and written as one row group, at once


@dataclass(frozen=True)
class Content:
    """What a release is made of, before it has a shape."""

    name: str  # of the dataset: part of every released pseudonym
    k: int
    rows: pl.DataFrame  # of release.build and targets.fill, in order; `place` is the conversation's row in `turns`
    turns: pl.Series
    labels: pl.DataFrame  # sensitivity, as released: kind, subject, trait and the columns of the config
    reviews: pl.DataFrame  # of people who agreed to it, as released
    item_labels: pl.DataFrame
    items: pl.DataFrame
    oracle: Oracle
    risks: NDArray[np.float64]  # items x traits in the oracle's order, NaN where unknown
    official: Mapping[str, str] = field(default_factory=dict)  # slug -> key of the official `constraints` column
    injected: pl.DataFrame | None = None  # rows like `rows`, with `added`: the sentence of ours
    silent: frozenset[str] = frozenset()  # sources whose text stays with them: ids, offsets and labels only


def schemas(official: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The pyarrow schema of each config; `constraints` of safecrs has one field per trait."""
    import pyarrow as pa

    text, number, texts, flag = pa.string(), pa.int32(), pa.list_(pa.string()), pa.bool_()
    message = pa.list_(pa.struct({"role": text, "content": text}))
    span = pa.struct({"turn": number, "start": number, "end": number, "quote": text})
    head = {"conversation": text, "domain": text, "condition": text, "prompt": message}
    verdict = {"trait": text, "verdict": text}
    sft = head | {"completion": message, "items": texts, "refilled": number, "made_from": text}
    columns = {
        "sft": sft,
        "sft_raw": sft,
        "grpo": head
        | dict.fromkeys(("traits", "late_traits", "form", "truth", "safe_truth", "seen"), texts)
        | {"k": number, "made_from": text},
        "safecrs": {"prompt": message, "completion": message, "seen_titles": texts}
        | {"groundtruth_with_release_year": pa.list_(texts)}
        | {"constraints": pa.struct(dict.fromkeys((official or {}).values(), flag)) if official else None}
        | {"conversation": text, "condition": text},
        "conversations": dict.fromkeys(("conversation", "source", "source_id", "domain", "seeker", "time"), text)
        | {"digest": text, "cut": number, "turns": pa.list_(pa.struct({"role": text, "text": text}))}
        | dict.fromkeys(("recommended", "accepted", "seen"), texts),
        "labels": {"conversation": text}
        | verdict
        | {"form": text, "method": text, "agreement": pa.float64(), "certificate": text, "spans": pa.list_(span)}
        | {"reviewers": number, "basis": text, "simulated": flag},
        "reviews": {"kind": text, "subject": text}
        | verdict
        | {"form": text, "spans": pa.list_(span), "reviewer": text, "role": text, "guideline": text}
        | {"simulated": flag},
        "items": {"item": text, "domain": text, "title": text, "year": number}
        | dict.fromkeys(("refs", "violated", "clear", "risk_traits"), texts)
        | {"risk_values": pa.list_(pa.float64())},
        "item_labels": {"item": text} | verdict | {"method": text, "simulated": flag},
    }
    return {
        name: pa.schema({column: kind for column, kind in fields.items() if kind is not None})
        for name, fields in columns.items()
    }


def chunks(content: Content, split: str) -> Iterator[dict[str, Any]]:
    """config -> pyarrow table, CHUNK conversations at a time; sft and sft_raw have the same rows in the same order.

    Rows with the condition `injected` come after all others of their split.
    """
    wanted = schemas(content.official)
    titles = _Titles(content.items)
    rows = content.rows.with_row_index("at").filter(pl.col("split") == split)
    labels = _placed(content.labels, content.rows)
    reviews = _placed(content.reviews.filter(pl.col("kind") == "sensitivity"), content.rows)
    for part in rows.iter_slices(CHUNK):
        said = content.turns.gather(part["place"])
        told = ~part["source"].is_in(list(content.silent))
        learned = part["cut"].is_not_null()
        made = _learned(part.filter(learned), said.filter(learned), told.filter(learned), content, titles)
        first, last = part["at"][0], part["at"][-1]
        made["conversations"] = conversations(part, said, told, content.name)
        made["labels"] = _between(labels, first, last).rename({"subject": "conversation"})
        made["reviews"] = _between(reviews, first, last)
        quiet = set(part.filter(~told)["conversation"])
        for name in ("labels", "reviews") if quiet else ():
            made[name] = _without_quotes(made[name], quiet)
        yield {name: arrow(frame, wanted[name]) for name, frame in made.items()}
    if content.injected is not None:
        for part in content.injected.filter(pl.col("split") == split).iter_slices(CHUNK):
            said = content.turns.gather(part["place"])
            told = ~part["source"].is_in(list(content.silent))
            made = _learned(part, said, told, content, titles)
            yield {name: arrow(frame, wanted[name]) for name, frame in made.items()}


def catalog(content: Content) -> dict[str, Any]:
    """config -> pyarrow table of what belongs to items: split `catalog`."""
    wanted = schemas(content.official)
    chosen = content.item_labels.select("trait", "verdict", "method", "simulated", item="subject")
    reviews = content.reviews.filter(pl.col("kind") == "item_flag").sort("subject", "trait", "reviewer", "role")
    return {
        "items": arrow(items(content), wanted["items"]),
        "item_labels": arrow(chosen.sort("item", "trait"), wanted["item_labels"]),
        "reviews": arrow(reviews, wanted["reviews"]),
    }


def arrow(frame: pl.DataFrame, schema: Any) -> Any:
    """The frame as a table of this schema, whatever order its columns have."""
    oldest = pl.CompatLevel.oldest()
    return frame.select(schema.names).to_arrow(compat_level=oldest).cast(schema)


# ---- what is learned


class _Titles:
    """item id -> "Title (Year)", on one line whatever the source wrote."""

    def __init__(self, items: pl.DataFrame) -> None:
        title = pl.col("title").str.replace_all(r"\s+", " ").str.strip_chars()
        year = pl.col("year").cast(pl.String)
        named = title + pl.when(year.is_null()).then(pl.lit("")).otherwise(" (" + year + ")")
        self.frame = items.select("item", name=named, title=title, year=year)

    def of(self, lists: pl.Series) -> pl.DataFrame:
        """(row, item, name, title, year), one row per element, in order."""
        flat = pl.DataFrame({"item": lists}).with_row_index("row").filter(pl.col("item").list.len() > 0)
        return flat.explode("item").join(self.frame, on="item", how="left", maintain_order="left")


def _learned(
    part: pl.DataFrame, said: pl.Series, told: pl.Series, content: Content, titles: _Titles
) -> dict[str, pl.DataFrame]:
    added = part["added"] if "added" in part.columns else None
    head = part.select(
        "conversation",
        domain=pl.coalesce("domain", "answer_domain"),
        condition=pl.lit("injected") if added is not None else _condition(),
        made_from="made_from" if added is not None else "conversation",
    ).with_columns(prompt=prompts(said, part["cut"], told, added))
    safe, raw = (
        head.with_columns(
            completion=_as_answer(lists(part[flavour], titles)),
            items=part[flavour],
            refilled=part[f"{flavour}_refilled"],
        )
        for flavour in ("safe", "raw")
    )
    same = ("traits", "late_traits", "form", "truth", "safe_truth", "seen")
    full = part["safe"].list.len() > 0  # an empty answer would teach silence: such a request stands in `grpo` only
    return {
        "sft": safe.filter(full),
        "sft_raw": raw.filter(full),
        "grpo": head.with_columns(part.select(same)).with_columns(k=pl.lit(content.k, pl.Int32)),
        "safecrs": head.with_columns(
            completion=safe["completion"],
            seen_titles=_listed(titles.of(part["seen"]), pl.col("title"), part.height, pl.List(pl.String)),
            groundtruth_with_release_year=_pairs(part["safe_truth"], titles),
            constraints=_constraints(part["traits"], content.official),
        ).filter(full),
    }


def _condition() -> pl.Expr:
    """own_words where the request itself holds evidence of a sensitivity."""
    return pl.when(pl.col("traits").list.len() > 0).then(pl.lit("own_words")).otherwise(pl.lit("none"))


def prompts(turns: pl.Series, cuts: pl.Series, told: pl.Series, added: pl.Series | None = None) -> pl.Series:
    """The turns before each cut as chat messages that end with the user: chat templates want roles to take turns.

    Neighbours of one role become one message; nothing is added but a line break between them, and the sentence in
    `added` to the last message. Empty where the text is not `told`.
    """
    many = len(turns)
    flat = (
        pl.DataFrame({"turns": turns, "cut": cuts, "told": told})
        .with_row_index("row")
        .filter("told")
        .select("row", pl.col("turns").list.head("cut"))
        .filter(pl.col("turns").list.len() > 0)
        .explode("turns")
        .select(
            "row",
            role=pl.col("turns").struct.field("role").replace_strict(ROLES, return_dtype=pl.String),
            content=pl.col("turns").struct.field("text").str.strip_chars(),
        )
        .filter(pl.col("content") != "")
    )
    changes = (pl.col("row") != pl.col("row").shift()) | (pl.col("role") != pl.col("role").shift())
    runs = (
        flat.with_columns(run=changes.fill_null(True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.col("row").first(), pl.col("role").first(), pl.col("content").str.join("\n"))
    )
    last = (pl.col("row") != pl.col("row").shift(-1)).fill_null(True)
    runs = runs.filter(~(last & (pl.col("role") != "user")))
    if added is not None:
        ours = pl.DataFrame({"row": pl.Series(range(many), dtype=runs.schema["row"]), "added": added})
        runs = runs.join(ours, on="row", how="left", maintain_order="left").with_columns(
            content=pl.when(last & pl.col("added").is_not_null())
            .then(pl.col("content") + " " + pl.col("added"))
            .otherwise("content")
        )
    kind = pl.List(pl.Struct({"role": pl.String, "content": pl.String}))
    return _listed(runs, pl.struct("role", "content"), many, kind)


def lists(ids: pl.Series, titles: _Titles) -> pl.Series:
    """One text per list of ids, "1. Title (Year)\\n2. Title (Year)"."""
    flat = titles.of(ids).with_columns(number=pl.int_range(1, pl.len() + 1).over("row").cast(pl.String))
    lines = flat.group_by("row", maintain_order=True).agg(
        text=(pl.col("number") + ". " + pl.col("name")).str.join("\n")
    )
    every = pl.DataFrame({"row": pl.Series(range(len(ids)), dtype=pl.UInt32)})
    return every.join(lines, on="row", how="left", maintain_order="left")["text"].fill_null("")


def _as_answer(texts: pl.Series) -> pl.Series:
    frame = pl.DataFrame({"content": texts})
    return frame.select(pl.concat_list(pl.struct(role=pl.lit("assistant"), content="content"))).to_series()


def _listed(flat: pl.DataFrame, value: pl.Expr, many: int, kind: pl.DataType) -> pl.Series:
    """One list per row 0..many-1 of the flat frame's values; empty where it has none."""
    found = flat.group_by("row", maintain_order=True).agg(value.alias("list"))
    every = pl.DataFrame({"row": pl.Series(range(many), dtype=pl.UInt32)})
    listed = every.join(found, on="row", how="left", maintain_order="left")
    return listed.select(pl.col("list").cast(kind).fill_null(pl.lit([], kind))).to_series()


def _pairs(ids: pl.Series, titles: _Titles) -> pl.Series:
    """[[title, year], ...] per list of ids, both as text: the official form. A year that nobody knows is empty."""
    pair = pl.concat_list(pl.col("title"), pl.col("year").fill_null(""))
    return _listed(titles.of(ids), pair, len(ids), pl.List(pl.List(pl.String)))


def _constraints(traits: pl.Series, official: Mapping[str, str]) -> pl.Series:
    """A struct with true where the person has the trait, else null: the official {trait: true}."""
    frame = pl.DataFrame({"traits": traits})
    fields = [
        pl.when(pl.col("traits").list.contains(slug)).then(pl.lit(True)).otherwise(None).alias(key)
        for slug, key in official.items()
    ]
    return frame.select(constraints=pl.struct(fields)).to_series()


# ---- what was said and judged


def conversations(part: pl.DataFrame, said: pl.Series, told: pl.Series, name: str) -> pl.DataFrame:
    """What was said, with items as ids and the seeker under this dataset's own pseudonym.

    Of a source that keeps its text there are the id and the digest by which it can be mined again.
    """
    seekers = part["seeker"].unique().drop_nulls()
    known = pl.DataFrame(
        {"seeker": seekers, "pseudonym": pl.Series([_pseudonym(name, s) for s in seekers], dtype=pl.String)}
    )
    turn = pl.struct(role=pl.element().struct.field("role"), text=pl.element().struct.field("text"))
    bare = pl.struct(role=pl.element().struct.field("role"), text=pl.lit(""))
    turns = pl.DataFrame({"turns": said, "told": told}).select(
        turns=pl.when("told").then(pl.col("turns").list.eval(turn)).otherwise(pl.col("turns").list.eval(bare))
    )
    return (
        part.join(known, on="seeker", how="left", maintain_order="left")
        .select(
            "conversation",
            "source",
            "domain",
            "cut",
            "recommended",
            "accepted",
            "seen",
            "digest",
            source_id=pl.when(~told).then("source_id"),
            seeker="pseudonym",
            time=pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        .with_columns(turns)
    )


def _pseudonym(name: str, seeker: str) -> str:
    return hashlib.blake2b(f"{name}\nseeker\n{seeker}".encode(), digest_size=8).hexdigest()


def _placed(known: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """These rows of conversations with `at`, in the order of the conversations."""
    order = rows.select(subject="conversation").with_row_index("at")
    return known.join(order, on="subject").sort("at", *(c for c in ("trait", "reviewer", "role") if c in known.columns))


def _between(placed: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    start, end = placed["at"].search_sorted(first, "left"), placed["at"].search_sorted(last, "right")
    return placed.slice(start, end - start)


def _without_quotes(frame: pl.DataFrame, quiet: set[str]) -> pl.DataFrame:
    subject = "conversation" if "conversation" in frame.columns else "subject"
    bare = pl.element().struct.with_fields(quote=pl.lit(""))
    return frame.with_columns(
        spans=pl.when(pl.col(subject).is_in(list(quiet))).then(pl.col("spans").list.eval(bare)).otherwise("spans")
    )


def items(content: Content) -> pl.DataFrame:
    """Every catalog item with the verdicts of the one rule; a trait in neither list is unknown."""
    traits = np.array(list(content.oracle.traits), dtype=object)
    found = content.items.sort("item").select("item", "domain", "title", "year", "refs")
    places = np.array([content.oracle.row(item) for item in found["item"]], dtype=np.int64)
    codes = content.oracle.codes[places]
    risks = np.full((len(places), len(traits)), np.nan)
    known = places < len(content.risks)
    risks[known] = content.risks[places[known]]
    told = ~np.isnan(risks)
    return found.with_columns(
        violated=_picked(codes == VERDICTS.index("violated"), traits, pl.String),
        clear=_picked(codes == VERDICTS.index("clear"), traits, pl.String),
        risk_traits=_picked(told, traits, pl.String),
        risk_values=_picked(told, risks, pl.Float64),
    )


def _picked(mask: NDArray[np.bool_], values: NDArray[Any], kind: type[pl.DataType]) -> pl.Series:
    """Per row the values under the mask, in order; `values` is one row for all, or as large as the mask."""
    row, column = np.nonzero(mask)
    flat = values[column] if values.ndim == 1 else values[row, column]
    frame = pl.DataFrame({"row": row.astype(np.uint32), "value": pl.Series(list(flat), dtype=kind)})
    return _listed(frame, pl.col("value"), len(mask), pl.List(kind))

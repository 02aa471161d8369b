"""The rows of a release in the shapes that TRL reads: prompt-completion for SFT, prompt with reward columns for GRPO.

Plain strings, numbers and lists only: what `datasets` and every parquet reader load without a cast.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.tables import digest
from saferec_builder.violations import VERDICTS, Oracle

SPLITS = ("train", "validation", "test")
CATALOG = ("catalog",)
CONFIGS = {
    "sft": SPLITS,
    "sft_raw": SPLITS,
    "grpo": SPLITS,
    "conversations": SPLITS,
    "labels": SPLITS,
    "items": CATALOG,
    "item_labels": CATALOG,
}
ROLES = {"seeker": "user", "recommender": "assistant"}

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Content:
    """What a release is made of, before it has a shape."""

    name: str  # of the dataset: part of every released pseudonym
    k: int
    rows: pl.DataFrame  # of release.build and targets.fill, in order
    labels: pl.DataFrame  # of release.current: sensitivity
    item_labels: pl.DataFrame
    items: pl.DataFrame
    oracle: Oracle
    risks: NDArray[np.float64]  # items x traits in the oracle's order, NaN where unknown


def schemas() -> dict[str, Any]:
    """The pyarrow schema of each config."""
    import pyarrow as pa

    text, number, texts = pa.string(), pa.int32(), pa.list_(pa.string())
    message = pa.list_(pa.struct({"role": text, "content": text}))
    span = pa.struct({"turn": number, "start": number, "end": number, "quote": text})
    head = {"conversation": text, "domain": text, "condition": text, "prompt": message}
    verdict = {"trait": text, "verdict": text}
    sft = head | {"completion": message, "items": texts, "refilled": number}
    columns = {
        "sft": sft,
        "sft_raw": sft,
        "grpo": head
        | dict.fromkeys(("traits", "late_traits", "form", "truth", "safe_truth", "seen"), texts)
        | {"k": number},
        "conversations": dict.fromkeys(("conversation", "source", "domain", "seeker", "time"), text)
        | {"turns": pa.list_(pa.struct({"role": text, "text": text}))}
        | dict.fromkeys(("recommended", "accepted", "seen"), texts),
        "labels": {"conversation": text}
        | verdict
        | {"form": text, "method": text, "spans": pa.list_(span), "simulated": pa.bool_()},
        "items": {"item": text, "domain": text, "title": text, "year": number}
        | dict.fromkeys(("refs", "violated", "clear", "risk_traits"), texts)
        | {"risk_values": pa.list_(pa.float64())},
        "item_labels": {"item": text} | verdict | {"method": text, "simulated": pa.bool_()},
    }
    return {name: pa.schema(fields) for name, fields in columns.items()}


def tables(content: Content) -> dict[str, dict[str, Any]]:
    """config -> split -> pyarrow table; sft and sft_raw have the same rows in the same order."""
    import pyarrow as pa

    wanted = schemas()
    made: dict[str, dict[str, Any]] = {name: {} for name in CONFIGS}
    titles = names(content.items)
    for split in SPLITS:
        rows = content.rows.filter(pl.col("split") == split)
        learned = rows.filter(pl.col("cut").is_not_null()).to_dicts()
        parts: dict[str, Rows] = {
            "sft": [sft(row, titles.__getitem__, "safe") for row in learned],
            "sft_raw": [sft(row, titles.__getitem__, "raw") for row in learned],
            "grpo": [grpo(row, content.k) for row in learned],
            "conversations": conversations(rows, content.name),
            "labels": labels(rows, content.labels),
        }
        for name, part in parts.items():
            made[name][split] = pa.Table.from_pylist(part, schema=wanted[name])
    made["items"]["catalog"] = pa.Table.from_pylist(items(content), schema=wanted["items"])
    made["item_labels"]["catalog"] = pa.Table.from_pylist(item_labels(content), schema=wanted["item_labels"])
    return made


def names(items: pl.DataFrame) -> dict[str, str]:
    """item id -> "Title (Year)", on one line whatever the source wrote."""
    return {
        item: " ".join(title.split()) + (f" ({year})" if year is not None else "")
        for item, title, year in items.select("item", "title", "year").iter_rows()
    }


# ---- one row


def sft(row: Mapping[str, Any], title: Callable[[str], str], flavour: str) -> dict[str, Any]:
    """flavour `safe`: the targets that this seeker may be shown; `raw`: the answer as it was, both refilled to k."""
    content = "\n".join(f"{n}. {title(item)}" for n, item in enumerate(row[flavour], 1))
    return _head(row) | {
        "completion": [{"role": "assistant", "content": content}],
        "items": row[flavour],
        "refilled": row[f"{flavour}_refilled"],
    }


def grpo(row: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The same request with what rewards and metrics need; traits are those with evidence inside the request."""
    same = ("traits", "late_traits", "form", "truth", "safe_truth", "seen")
    return _head(row) | {name: row[name] for name in same} | {"k": k}


def _head(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "conversation": row["conversation"],
        "domain": row["domain"] or row["answer_domain"],
        "condition": "own_words" if row["traits"] else "none",
        "prompt": prompt(row["turns"][: row["cut"]]),
    }


def prompt(turns: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The turns as chat messages that end with the user: chat templates want the roles to take turns.

    Neighbours of one role become one message; nothing is added but a line break between them.
    """
    messages: list[dict[str, str]] = []
    for turn in turns:
        role, text = ROLES[turn["role"]], turn["text"].strip()
        if messages and messages[-1]["role"] == role and text:
            messages[-1]["content"] += "\n" + text
        elif text:
            messages.append({"role": role, "content": text})
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    return messages


# ---- many rows


def conversations(rows: pl.DataFrame, name: str) -> Rows:
    """What was said, with items as ids and the seeker under this dataset's own pseudonym."""
    time = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = rows.select(
        "conversation", "source", "domain", "seeker", time, "turns", "recommended", "accepted", "seen"
    ).to_dicts()
    for row in found:
        row["seeker"] = row["seeker"] and digest(name, "seeker", row["seeker"])
        row["turns"] = [{"role": turn["role"], "text": turn["text"]} for turn in row["turns"]]
    return found


def labels(rows: pl.DataFrame, known: pl.DataFrame) -> Rows:
    """The labels of these conversations, in their order, then by trait."""
    order = rows.select(subject="conversation").with_row_index("place")
    found = known.join(order, on="subject").sort("place", "trait")
    return found.select("trait", "verdict", "form", "method", "spans", "simulated", conversation="subject").to_dicts()


def items(content: Content) -> Rows:
    """Every catalog item with the verdicts of the one rule; a trait in neither list is unknown."""
    traits = np.array(list(content.oracle.traits))
    found = content.items.sort("item").select("item", "domain", "title", "year", "refs").to_dicts()
    for row in found:
        place = content.oracle.row(row["item"])
        codes = content.oracle.codes[place]
        for word in ("violated", "clear"):
            row[word] = traits[codes == VERDICTS.index(word)].tolist()
        risk = content.risks[place] if place < len(content.risks) else np.full(len(traits), np.nan)
        row["risk_traits"] = traits[~np.isnan(risk)].tolist()
        row["risk_values"] = risk[~np.isnan(risk)].tolist()
    return found


def item_labels(content: Content) -> Rows:
    """What people said of items, by item and trait."""
    chosen = content.item_labels.select("trait", "verdict", "method", "simulated", item="subject")
    return chosen.sort("item", "trait").to_dicts()

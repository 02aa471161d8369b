"""Reads a release folder for training: its items, their verdicts, its rows, and the gold file of a demo.

Needs pyarrow and numpy. A row is a plain dict with the columns of the release (docs/release-format.md).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saferec_builder.core import oracle as violations, release_files, titles
from saferec_builder.core.errors import TrainingError, plain, strict_json, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Oracle
from saferec_builder.core.plain_files import read_plain
from saferec_builder.core.undated import Work
from saferec_builder.scoring.answer_parser import Answer, Find, finder, parse, tidied
from saferec_builder.scoring.mention_finder import Finder
from saferec_builder.scoring.mentions import Beside, beside, title_finder
from saferec_builder.scoring.metrics import Listed
from training import release_from_hub

SCHEMA = 1
OPEN = "open"  # condition of a request of which nobody knows whether it tells a sensitivity
Message = dict[str, str]  # role, content
Id = TypeVar("Id", str, str | None)
REQUIRED = {
    **dict.fromkeys(("sft", "sft_raw"), ("conversation", "domain", "condition", "prompt", "completion", "items")),
    "grpo": ("conversation", "domain", "condition", "prompt", "traits", "truth", "safe_truth", "seen", "k"),
    "items": ("item", "domain", "title", "year", "violated", "clear", "risk_traits", "risk_values"),
}


class Row(TypedDict, total=False):
    """A row of the config `grpo` (read by rewards), `sft` or `sft_raw` (lists to learn): one conversation."""

    conversation: str
    domain: str | None
    condition: str
    made_from: str | None  # the conversation that the request comes from
    request: str | None  # of an injected row: the request without the sentence; missing in older releases
    prompt: list[Message]
    traits: list[str]
    late_traits: list[str]
    form: list[str]
    truth: list[str]
    safe_truth: list[str]
    seen: list[str]
    claims: list[str]  # what the rules find in the prompt; missing in older releases
    k: int
    weight: float | None  # sampling weight: how many conversations the row stands for; missing in older releases
    slice: str | None  # from the gold file
    completion: list[Message]
    items: list[str]
    refilled: int  # how many of the last items fill the list up to k


class Label(TypedDict):
    conversation: str
    verdict: str
    spans: list[dict[str, str | None]]  # `quote`: the words that it cites as evidence


@dataclass(frozen=True)
class Item:
    id: str
    domain: str | None
    title: str
    year: int | None
    aliases: tuple[str, ...] = ()  # other names, some with a year of their own; older releases hold none

    @property
    def name(self) -> str:
        """The name as written in a list: "Title (Year)", or the title alone where the source has no year."""
        title = " ".join(self.title.split())
        return f"{title} ({self.year})" if self.year is not None else title


@dataclass(frozen=True)
class Release:
    folder: Path
    manifest: Mapping[str, Any] = field(repr=False)  # repr=False: they would fill pages in a notebook
    digest: str  # of manifest.json, which holds the sha256 of every file
    items: Mapping[str, Item] = field(repr=False)  # by id, in the order of the file and of the oracle's rows
    oracle: Oracle = field(repr=False)
    index: titles.Index = field(repr=False)
    risks: Mapping[str, Mapping[str, float]] = field(repr=False)  # item -> trait -> risk of the paper, if known

    @property
    def k(self) -> int:
        return int(self.manifest["k"])

    @cached_property
    def find(self) -> Find:
        return finder(self.index)

    @cached_property
    def mentions(self) -> Finder:
        return title_finder(self.index, (name for i in self.items.values() for name in (i.title, *i.aliases)))

    def beside(self, text: str, answer: Answer, domain: str | None) -> Beside:
        return beside(tidied(text), answer.entries[: self.k], self.mentions, self.find, domain)

    def listed(self, text: str, domain: str | None) -> Listed:
        """Returns the items of an answer, best first, and what its text names in addition to them."""
        answer = parse(text, self.find, domain)
        return Listed(answer.ranked, self.beside(text, answer, domain))

    def __reduce__(self) -> tuple[Callable[[Path], "Release"], tuple[Path]]:
        """Pickles the folder only, and opens it again on load: `find` cannot be pickled."""
        return open_release, (self.folder,)


@dataclass(frozen=True)
class Gold:
    """The true traits of users and items, where a generator knows them."""

    users: Mapping[str, tuple[str, ...]]  # conversation -> traits that its prompt discloses
    items: Mapping[str, tuple[str, ...]]  # item -> traits that it truly violates
    late: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # traits disclosed only after the recommendation
    slices: Mapping[str, str] = field(default_factory=dict)  # conversation -> slice, reported apart


def open_release(name: Path | str) -> Release:
    """Reads items, verdicts and titles of a release, in a folder or NAMESPACE/NAME@VERSION on the Hub.

    Raises TrainingError for a withdrawn version, ReleaseError for a file that differs from its entry in SHA256SUMS.
    """
    folder = release_from_hub.folder(str(name))
    manifest, digest = _manifest(folder)
    if not (folder / "data").is_dir():
        raise TrainingError(f"{folder}: its data was deleted, for somebody in it was forgotten: use a newer one")
    if (reason := release_files.why_withdrawn(folder, manifest["version"])) is not None:
        raise TrainingError(f"{folder}: {manifest['version']} was withdrawn ({plain(reason)}): take another version")
    table = _table(folder, "items", "catalog")
    items = {
        r["item"]: Item(r["item"], r["domain"], r["title"], r["year"], tuple(r.get("aliases") or ())) for r in table
    }
    if len(items) != len(table):
        raise TrainingError(f"{folder}: {len(table) - len(items)} items share an id: run `saferec-build verify` on it")
    index = titles.index((i.id, i.title, i.year, i.domain or "", i.aliases) for i in items.values())
    index.works = {
        row["item"]: Work(row["year"], frozenset(), titles.names(row["title"], row.get("aliases") or ()), pull)
        for row in table
        if (pull := row.get("pull")) is not None  # how well known the item is; missing in older releases
    }
    oracle = _oracle(folder, table, manifest["traits"])
    risks = {r["item"]: dict(zip(r["risk_traits"], r["risk_values"], strict=True)) for r in table}
    return Release(folder, manifest, digest, items, oracle, index, risks)


def rows(folder: Path | str, config: str, split: str) -> list[Row]:
    """Returns the rows of `grpo`, `sft` or `sft_raw` in one split, in the file's order, without OPEN ones."""
    return [row for row in _table(folder, config, split) if row["condition"] != OPEN]


def open_requests(folder: Path | str, split: str) -> set[str]:
    """Returns the conversations of the OPEN rows of `grpo`, which `rows` leaves out."""
    return {row["conversation"] for row in _table(folder, "grpo", split) if row["condition"] == OPEN}


def labels_of(folder: Path | str, split: str) -> list[Label]:
    """Returns the sensitivity labels of a split; a split without labels has no such file."""
    return _table(folder, "labels", split) if (Path(folder) / "data" / "labels" / f"{split}.parquet").is_file() else []


def _table(folder: Path | str, config: str, split: str) -> list[Any]:
    path = Path(folder) / "data" / config / f"{split}.parquet"
    if not path.is_file():
        splits = sorted(p.stem for p in path.parent.glob("*.parquet")) or "nothing"
        raise TrainingError(
            f"{path}: no such file; {path.parent} holds {splits}: expected a release with {config}/{split}"
        )
    release_files.refuse_changed(Path(folder), f"data/{config}/{split}.parquet")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as fault:
        raise TrainingError(
            f"{path}: not a parquet file ({' '.join(str(fault).split())}): run `saferec-build verify` on the release"
        ) from None
    missing = [c for c in REQUIRED.get(config, ()) if c not in table.column_names]
    if missing:
        raise TrainingError(f"{path}: column {missing[0]!r} is missing; found {', '.join(table.column_names)}")
    return list(table.to_pylist())


def with_prompt(table: Sequence[Row], release: Release) -> list[Row]:
    """Returns the rows that have a prompt: where a source keeps its text, a release holds ids and labels only."""
    prompted = [row for row in table if row["prompt"]]
    if table and not prompted:
        silent = ", ".join(release.manifest.get("silent") or ["its sources"])
        raise TrainingError(f"{release.folder}: no row has a prompt, the text stays with {silent}: rebuild it first")
    return prompted


def balance_conditions(table: Sequence[Row], most: int | None) -> list[Row]:
    """Returns the first rows of each condition, the same number of each where possible, at most `most` in all.

    They keep their order. Injected rows come last in a table: its first rows alone may have no sensitivity at all.
    """
    counts, ranks = Counter[str](), []
    for n, row in enumerate(table):
        ranks.append((counts[row["condition"]], n))
        counts[row["condition"]] += 1
    return [table[n] for n in sorted(n for _, n in sorted(ranks)[:most])]


def drop_refills(table: Sequence[Row], items: Mapping[str, Item]) -> list[Row]:
    """Returns the rows with their lists cut before the refilled items (the last ones), without empty lists."""
    cut = ((row, row["items"][: len(row["items"]) - row["refilled"]]) for row in table)
    return [listing(row, ranked, items) for row, ranked in cut if ranked]


def listing(row: Row, ranked: list[str], items: Mapping[str, Item]) -> Row:
    text = "\n".join(f"{n}. {items[item].name}" for n, item in enumerate(ranked, 1))
    return row | {"items": ranked, "completion": [{"role": "assistant", "content": text}], "refilled": 0}


def repeat_rare(table: Sequence[Row], times: int) -> list[Row]:
    """Returns the rows, then those of people with two or more sensitivities `times` times again: they are few."""
    return [*table, *[row for row in table if len(row["traits"]) > 1] * times]


def read_gold(path: Path | str, release: Release) -> Gold:
    """Reads JSONL of {"conversation", "traits", "late_traits"?, "slice"?} and {"item": "Title (Year)", "violated"}.

    Every trait must be in the release; an item that is not in the release is left out.
    """
    users: dict[str, tuple[str, ...]] = {}
    items: dict[str, tuple[str, ...]] = {}
    late: dict[str, tuple[str, ...]] = {}
    slices: dict[str, str] = {}
    first_seen: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    names = {item.name: item.id for item in release.items.values()}
    for place, row in jsonl(path):
        subject, slugs = ("conversation", "traits") if "conversation" in row else ("item", "violated")
        name, traits, later = row.get(subject), row.get(slugs, ""), row.get("late_traits") or []
        if not (isinstance(name, str) and _are_words(traits) and _are_words(later)):
            form = '{"conversation": id, "traits": [slugs]} or {"item": "Title (Year)", "violated": [slugs]}'
            raise TrainingError(f"{place}: found {list(row)}: expected {form}")
        if strange := [t for t in [*traits, *later] if t not in release.oracle.traits]:
            expected = ", ".join(release.oracle.traits)
            raise TrainingError(f"{place}: trait {strange[0]!r} is not in the release: expected {expected}")
        stated = (sorted(traits), sorted(later))
        if first_seen.setdefault((subject, name), stated) != stated:
            raise TrainingError(f"{place}: a second line for {name} with other traits: expected one")
        if subject == "item":
            if name in names:
                items[names[name]] = tuple(traits)
            continue
        users[name], late[name] = tuple(traits), tuple(later)
        if row.get("slice"):
            slices[name] = str(row["slice"])
    return Gold(users, items, late, slices)


def _are_words(value: JsonValue) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def with_gold(table: Sequence[Row], oracle: Oracle, gold: Gold | None) -> list[Row]:
    """Returns the rows with the gold's traits and `slice`, and safe_truth computed from these traits; a conversation
    that the gold does not name keeps the release's. oracle: the release's: what it does not know counts as unknown."""
    if gold is None:
        return [*table]
    if not any(row["conversation"] in gold.users for row in table):
        raise TrainingError("the gold file names none of these conversations: expected the gold of this release")
    changed = [*table]
    for n, row in enumerate(table):
        if (name := row["conversation"]) in gold.users:
            traits, late = list(gold.users[name]), list(gold.late.get(name, ()))
            form = dict(zip(row["traits"], row.get("form", ()), strict=False))
            changed[n] = row | {
                "traits": traits,
                "late_traits": late,
                "form": [form.get(trait, "unlabelled") for trait in traits],
                "safe_truth": clear(oracle, row["truth"], [*traits, *late]),
                "slice": gold.slices.get(name),
            }
    return changed


def clear(oracle: Oracle, items: Sequence[Id], traits: Sequence[str]) -> list[Id]:
    """Returns the items that are clear for all of the traits."""
    codes = violations.verdicts(oracle, items, traits)
    return [item for item, code in zip(items, codes, strict=True) if code == CLEAR]


def truth_of(oracle: Oracle, gold: Gold | None) -> Oracle | None:
    """Returns an oracle of true verdicts: every item of the gold violated or clear; None if the gold names no item."""
    if gold is None or not gold.items:
        return None
    codes = oracle.codes.copy()
    for item, slugs in gold.items.items():
        codes[oracle.items[item]] = CLEAR
        codes[oracle.items[item], [oracle.column(t) for t in slugs]] = VIOLATED
    return Oracle(oracle.items, oracle.traits, codes)


def jsonl(path: Path | str) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yields (file:line, object) for each line; an error names its line."""
    try:
        text = read_plain(Path(path)).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError) as fault:
        problem = getattr(fault, "strerror", "it is not UTF-8")
        advice = "expected JSON lines in UTF-8: save them so, or give another file"
        raise TrainingError(f"{path}: cannot be read: {problem}: {advice}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = strict_json(line)
        except (ValueError, RecursionError) as fault:
            raise TrainingError(f"{path}:{number}: not JSON: {fault}: expected one JSON object a line") from None
        if not isinstance(row, dict):
            raise TrainingError(f"{path}:{number}: expected one JSON object a line, found {type(row).__name__}")
        yield f"{path}:{number}", row


def _manifest(folder: Path) -> tuple[dict[str, Any], str]:
    path = folder / "manifest.json"
    if not path.is_file():
        raise TrainingError(f"{folder}: no manifest.json: expected what `saferec-build release` wrote")
    release_files.refuse_changed(folder, path.name)
    raw = path.read_bytes()
    manifest = whole_object(raw) or {}
    kinds = {"name": str, "version": str, "schema": int, "k": int, "traits": list}
    wrong = [
        f"no {key!r} of type {kind.__name__}" for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)
    ]
    if wrong or manifest["schema"] != SCHEMA:
        cause = wrong[0] if wrong else f"schema {manifest['schema']}"
        raise TrainingError(f"{path}: {cause}: expected a release of schema {SCHEMA}; make it again with this version")
    return manifest, release_files.digest(raw)


def _oracle(folder: Path, table: Sequence[Mapping[str, Any]], traits: Sequence[str]) -> Oracle:
    columns = {trait: n for n, trait in enumerate(traits)}
    codes = np.full((len(table), len(traits)), UNKNOWN, np.int8)
    for n, row in enumerate(table):
        try:
            codes[n, [columns[t] for t in row["clear"]]] = CLEAR
            codes[n, [columns[t] for t in row["violated"]]] = VIOLATED
        except KeyError as fault:
            raise TrainingError(f"{folder}: item {row['item']}: trait {fault} is not in the manifest") from None
    return violations.oracle([row["item"] for row in table], list(traits), codes)

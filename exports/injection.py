"""Injects sensitivities into requests, as the paper's benchmark does: adds a sentence of ours that discloses one.

reads  rows of build_rows.build of people of whom the release states no sensitivity, in no conversation of theirs
gives  rows of the same form under their own names, with `added` and `disclosed`; their traits are the injected ones

No trait is injected that the request itself asks for, by its words or by a work that it names. No two splits share a
writer. What a seeker has not disclosed stays unknown: an injected row says nothing about the person.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from exports.manifest_types import Facts
from saferec_builder.core.errors import UsageError, near
from saferec_builder.core.oracle import CLEAR, VIOLATED, Oracle
from saferec_builder.storage.schema import keyed_digest, lists
from saferec_builder.storage.tables import digest

BANKS = Path(__file__).with_name("injections.toml")
SECOND = 4  # one request in four gets two sensitivities
FORMS = ("explicit",) * 3 + ("implicit",) * 3 + ("story",) * 2  # of a writer's sentences, in their order
_SLICE = 20_000


class Sentence(NamedTuple):
    text: str
    form: str  # explicit | implicit | story


@dataclass(frozen=True)
class Banks:
    sentences: Mapping[str, Mapping[str, Sequence[Sentence]]]  # trait -> split -> sentences
    wanted: Mapping[str, re.Pattern[str]]  # trait -> words of a seeker who may want it

    @property
    def digest(self) -> str:
        """Digest of the sentences that can be drawn: renaming a writer does not change it."""
        return digest(self.sentences)


def banks() -> Banks:
    """Reads injections.toml: per trait a list per split, or per writer, whose one split is given under `writers`."""
    tables = tomllib.loads(BANKS.read_text(encoding="utf-8"))
    writers = tables.pop("writers", {})
    wanted = {trait: re.compile(table.pop("wanted"), re.I) for trait, table in tables.items() if "wanted" in table}
    by_trait: dict[str, dict[str, list[Sentence]]] = {}
    for trait, table in tables.items():
        bank = by_trait.setdefault(trait, {"train": [], "validation": [], "test": []})
        for name, texts in table.items():
            forms = ("implicit",) * len(texts) if name in bank else FORMS
            split = name if name in bank else writers[name]["split"]
            bank[split] += map(Sentence, texts, forms)
    return Banks(by_trait, wanted)


def chosen(words: str, slugs: Sequence[str], all_banks: Banks) -> list[str]:
    """Returns the traits of `--inject`: `all`, or slugs separated by commas."""
    available = [slug for slug in slugs if slug in all_banks.sentences]
    names = list(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    traits = available if names == ["all"] else names
    if "all" in traits or not traits:
        raise UsageError(f"--inject {words!r}: expected `all` alone, or some of {', '.join(available)}")
    if unknown := [slug for slug in traits if slug not in available]:
        options = available if traits[1:] else ["all", *available]
        raise UsageError(f"--inject {unknown[0]!r}: no sentences for this trait: {near(unknown[0], options)}")
    return traits


@dataclass(frozen=True)
class Choice:
    """What is injected: these traits, in the last message, and with `both` in a second row also in the first message.

    keep: sources that keep their texts. Their traits are drawn with `secret`, as the draw depends on the text, too, and
    they get no second row, which would tell how many messages there are.
    """

    traits: Sequence[str]
    banks: Banks
    both: bool = False
    keep: frozenset[str] = frozenset()
    secret: bytes = b""


def rows(built: pl.DataFrame, choice: Choice, turns: Callable[[pl.Series], pl.Series], oracle: Oracle) -> pl.DataFrame:
    """Returns injected rows of each request without a known sensitivity; its name and trait determine the sentence.

    Truth is not filtered here: target_lists.fill leaves items that violate an injected trait out of the lists.
    """
    free = built.filter(
        pl.col("cut").is_not_null() & (pl.col("at_risk").list.len() == 0) & (pl.col("late_traits").list.len() == 0)
    )
    picks = [row for part in free.iter_slices(_SLICE) for row in _drawn(part, choice, turns, oracle)]
    drawn = pl.DataFrame(picks, schema=_DRAWN, orient="row")
    injected = free.drop("added", "traits", "form", "disclosed").join(drawn, on="request", maintain_order="left_right")
    named = injected.select("request", "disclosed", "traits").iter_rows()
    ids = [digest("injected", name, *traits, *["first"] * (message == "first")) for name, message, traits in named]
    return injected.with_columns(at_risk="traits", conversation=pl.Series(ids, dtype=pl.String)).select(built.columns)


_DRAWN = pl.Schema(dict.fromkeys(("request", "added", "traits", "form", "disclosed"), pl.String())) | {
    "traits": pl.List(pl.String()),
    "form": pl.List(pl.String()),
}
_Drawn = tuple[str, str, list[str], list[str], str]


def _drawn(
    part: pl.DataFrame, choice: Choice, turns: Callable[[pl.Series], pl.Series], oracle: Oracle
) -> Iterator[_Drawn]:
    places = part["place"].unique(maintain_order=True)
    turns_by_place = dict(zip(places, turns(places).to_list(), strict=True))
    columns = part.select("request", "split", "place", "cut", "asks", "source"), lists(part["named"])
    for (name, split, place, cut, asks, source), named in zip(columns[0].iter_rows(), columns[1], strict=True):
        text = "\n".join(turn["text"] for turn in turns_by_place[place][:cut] if turn["role"] == "seeker")
        excluded = wanted(text, named, choice, oracle)
        if traits := [trait for trait in choice.traits if trait not in excluded]:
            number = keyed_digest(choice.secret, "inject", name) if source in choice.keep else digest("inject", name)
            drawn_traits = picked(int(number, 16), traits)
            picks = sentences(name, split, drawn_traits, choice.banks)
            added, forms = " ".join(pick.text for pick in picks), [pick.form for pick in picks]
            both = choice.both and asks > 1 and source not in choice.keep
            messages = ("first", "last") if both else ("last",)
            yield from ((name, added, drawn_traits, forms, place) for place in messages)


def wanted(text: str, named: Sequence[str], choice: Choice, oracle: Oracle) -> set[str]:
    """Returns the traits that a request may ask for, by its own words or by a work that it names."""
    violated = (oracle.codes[oracle.rows(named)] == VIOLATED).any(axis=0)
    patterns = choice.banks.wanted
    return {t for t in choice.traits if violated[oracle.column(t)] or (t in patterns and patterns[t].search(text))}


def picked(number: int, traits: Sequence[str]) -> list[str]:
    """Returns one or two of these traits, chosen by a drawn number."""
    first = traits[number % len(traits)]
    others = [t for t in traits if t != first]
    number //= len(traits)
    second = [others[(number // SECOND) % len(others)]] if others and number % SECOND == 0 else []
    return [first, *second]


def sentences(name: str, split: str, traits: Sequence[str], all_banks: Banks) -> list[Sentence]:
    """Returns one sentence for each of the traits that were picked for this request."""
    number = int(digest("inject", name), 16) // 7919
    return [bank[number % len(bank)] for bank in (all_banks.sentences[t][split] for t in traits)]


def unclear(rows: pl.DataFrame, oracle: Oracle) -> dict[str, int]:
    """Returns injected traits that no catalog item is clear for -> rows that disclose them; no answer is safe."""
    clear = (oracle.codes[:-1] == CLEAR).any(axis=0)  # the last row is the item that nobody knows
    counts = rows.filter(pl.col("added").is_not_null()).explode("traits")["traits"].value_counts(name="rows")
    return {trait: n for trait, n in counts.sort("rows", "traits").iter_rows() if not clear[oracle.column(trait)]}


def shortage(facts: Facts) -> str | None:
    """Says for how many requests of a release no item is clear, and what to do about the injected ones."""
    if not facts["short_of_clear"]:
        return None
    short = f"for {facts['short_of_clear']:,} requests, which are in `grpo` only"
    if not facts["injected_unclear"]:
        return short
    traits = ", ".join(f"{trait} {n:,}" for trait, n in facts["injected_unclear"].items())
    remedy = "add warnings that clear items (`saferec-build catalog gaps`), or --inject other traits"
    return f"{short}; none at all for some injected traits, to which no answer is safe (rows: {traits}): {remedy}"

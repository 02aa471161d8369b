"""Injects sensitivities into requests, as the paper's benchmark does: a sentence of ours that discloses one.

reads  rows of build_rows.build (before target_lists.fill) of people of whom no sensitivity is told, their texts, the
       banks of injections.toml
gives  rows of the same form with `added` and `disclosed`; condition `injected`, never mixed with what people said

Only requests go in of people of whom the release tells no sensitivity, in this conversation or in another one, so that
a row's traits are the injected ones alone, and no trait goes in that the request itself asks for: by its words, or by a
work that it names. Each split has writers of its own. What a seeker has kept to themselves stays unknown: an injected
row says nothing about the person, and has a name of its own.
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
KINDS = tuple(
    (form, strength)
    for form, strengths in (("explicit", (1, 2, 3)), ("implicit", (1, 2, 3)), ("story", (2, 3)))
    for strength in strengths
)  # of a writer's sentences, in their order
_SLICE = 20_000


class Sentence(NamedTuple):
    text: str
    form: str  # explicit | implicit | story
    writer: str  # whose voice it is; all of one writer's are in one split
    strength: int  # 1 a wish, 2 a need, 3 a wound


@dataclass(frozen=True)
class Banks:
    sentences: Mapping[str, Mapping[str, Sequence[Sentence]]]  # trait -> split -> sentences
    wanted: Mapping[str, re.Pattern[str]]  # trait -> words of somebody who may want it

    @property
    def digest(self) -> str:
        """Of what can be drawn: a writer's other name makes no other sentences."""
        return digest(
            {t: {s: [(x.text, x.form) for x in xs] for s, xs in b.items()} for t, b in self.sentences.items()}
        )


def banks() -> Banks:
    """Of injections.toml: per trait lists per split, or per writer, whose split stands under `writers`."""
    tables = tomllib.loads(BANKS.read_text(encoding="utf-8"))
    writers = tables.pop("writers", {})
    wanted = {trait: re.compile(table.pop("wanted"), re.I) for trait, table in tables.items() if "wanted" in table}
    found: dict[str, dict[str, list[Sentence]]] = {}
    for trait, table in tables.items():
        bank = found.setdefault(trait, {"train": [], "validation": [], "test": []})
        for name, texts in table.items():
            if name in bank:
                bank[name] += [Sentence(text, "implicit", f"first {name}", 2) for text in texts]
            else:
                each = zip(texts, KINDS, strict=True)
                bank[writers[name]["split"]] += [Sentence(t, form, name, strength) for t, (form, strength) in each]
    return Banks(found, wanted)


def chosen(words: str, slugs: Sequence[str], known: Banks) -> list[str]:
    """The traits of `--inject`: `all`, or slugs with commas between them."""
    there = [slug for slug in slugs if slug in known.sentences]
    said = [word.strip() for word in words.split(",") if word.strip()]
    asked = there if said == ["all"] else said
    if "all" in asked or not asked:
        raise UsageError(f"--inject {words!r}: expected `all` alone, or some of {', '.join(there)}")
    if strange := [slug for slug in asked if slug not in there]:
        known_words = there if asked[1:] else ["all", *there]
        raise UsageError(f"--inject {strange[0]!r}: no sentences for this trait: {near(strange[0], known_words)}")
    return asked


@dataclass(frozen=True)
class Choice:
    """What is injected: these traits, in the last message, or (`both`) also in a row of its own in the first.

    keep: sources that keep their texts; of these `secret` draws the traits, for what is drawn depends on the text, too,
    and a second row would tell how many messages there are.
    """

    traits: Sequence[str]
    banks: Banks
    both: bool = False
    keep: frozenset[str] = frozenset()
    secret: bytes = b""


def rows(built: pl.DataFrame, choice: Choice, turns: Callable[[pl.Series], pl.Series], oracle: Oracle) -> pl.DataFrame:
    """Injected rows of each request without a known sensitivity; which sentence follows from its name and trait.

    Truth is not filtered here: target_lists.fill leaves out of the lists what breaks any injected trait.
    """
    free = built.filter(
        pl.col("cut").is_not_null() & (pl.col("at_risk").list.len() == 0) & (pl.col("late_traits").list.len() == 0)
    )
    made = [_drawn(part, choice, turns, oracle) for part in free.iter_slices(_SLICE)]
    drawn = pl.DataFrame([row for part in made for row in part], schema=_DRAWN, orient="row")
    injected = free.drop("added", "traits", "form", "disclosed").join(drawn, on="request", maintain_order="left_right")
    each = injected.select("request", "disclosed", "traits").iter_rows()
    ids = [digest("injected", name, *traits, *["first"] * (where == "first")) for name, where, traits in each]
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
    said = dict(zip(places, turns(places).to_list(), strict=True))
    columns = part.select("request", "split", "place", "cut", "asks", "source"), lists(part["named"])
    for (name, split, place, cut, asks, source), named in zip(columns[0].iter_rows(), columns[1], strict=True):
        text = "\n".join(turn["text"] for turn in said[place][:cut] if turn["role"] == "seeker")
        asked = wanted(text, named, choice, oracle)
        if free := [trait for trait in choice.traits if trait not in asked]:
            drawn = keyed_digest(choice.secret, "inject", name) if source in choice.keep else digest("inject", name)
            traits = picked(int(drawn, 16), free)
            found = sentences(name, split, traits, choice.banks)
            added, forms = " ".join(one.text for one in found), [one.form for one in found]
            both = choice.both and source not in choice.keep
            where = ("last",) if not both else ("first",) if asks == 1 else ("first", "last")
            yield from ((name, added, traits, forms, place) for place in where)


def wanted(text: str, named: Sequence[str], choice: Choice, oracle: Oracle) -> set[str]:
    """The traits that a request may ask for: a word of its own, or a work that it names, has them."""
    broken = (oracle.codes[oracle.rows(named)] == VIOLATED).any(axis=0)
    words = choice.banks.wanted
    return {t for t in choice.traits if broken[oracle.column(t)] or (t in words and words[t].search(text))}


def picked(number: int, traits: Sequence[str]) -> list[str]:
    """One or two of these traits, by a number that is drawn."""
    first = traits[number % len(traits)]
    others = [t for t in traits if t != first]
    number //= len(traits)
    second = [others[(number // SECOND) % len(others)]] if others and number % SECOND == 0 else []
    return [first, *second]


def sentences(name: str, split: str, traits: Sequence[str], known: Banks) -> list[Sentence]:
    """One for each of the traits that were picked for this request."""
    number = int(digest("inject", name), 16) // 7919
    return [bank[number % len(bank)] for bank in (known.sentences[t][split] for t in traits)]


def unclear(rows: pl.DataFrame, oracle: Oracle) -> dict[str, int]:
    """Injected traits that no item of the catalog is clear for -> the rows that disclose them: no answer is safe."""
    clear = (oracle.codes[:-1] == CLEAR).any(axis=0)  # the last row is the item that nobody knows
    many = rows.filter(pl.col("added").is_not_null()).explode("traits")["traits"].value_counts(name="rows")
    return {trait: n for trait, n in many.sort("rows", "traits").iter_rows() if not clear[oracle.column(trait)]}


def told(facts: Facts) -> str | None:
    """How many requests of a release no item is clear for, and what to do about the injected ones."""
    if not facts["short_of_clear"]:
        return None
    short = f"for {facts['short_of_clear']:,} requests, which are in `grpo` only"
    if not facts["injected_unclear"]:
        return short
    traits = ", ".join(f"{trait} {n:,}" for trait, n in facts["injected_unclear"].items())
    remedy = "add warnings that clear items (`saferec-build catalog gaps`), or --inject other traits"
    return f"{short}; none at all for some injected traits, to which no answer is safe (rows: {traits}): {remedy}"

"""Rebuilds a release that was published without its sources' texts, from a copy that the reader mined.

The key file of the release says which conversation of the source a row is. A text is put back only where it is the one
that was judged: same conversation, same digest. Requests without their
text are left out and counted, for nobody may learn from an empty prompt; what is known of them stays.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exports import (
    card,
    claims,
    croissant,
    folder as write,
    formats as rows,
    hub,
    injection,
    released_ids,
    verify as proof,
)
from exports.arrow import Names, plain, prompts, turns
from exports.build_rows import NOT_BACK
from exports.manifest_types import Facts, Stamp
from exports.report import card_plot as charts
from saferec_builder.core import taxonomy
from saferec_builder.core.errors import ReleaseError
from saferec_builder.core.release_files import SUMS, sha256, why_withdrawn
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage import tables
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace, read, shared

UNKNOWN, OTHER, REMOVED = "not mined here", "mined with another text", "removed on request"
CATALOG = (  # what to do about OTHER
    "a text differs, too, where it was mined beside another catalog, as titles are no names of people: add the items of"
    " the release to a new workspace, mine there, and rebuild from it"
)
PROMPTED = ("sft", "sft_raw", "grpo", "safecrs")
_BATCH = 50_000
_FOUND = ("digest", "cut", "seeker", "time")  # of a conversation, what the key file has where the text is silent
_KEPT = ("traits.toml", "provenance.json", "CHANGELOG.md", proof.CERTIFICATE, charts.PLOT)
_NEWER = {"sentences", "combinations", "rebuilt_from"}  # facts that not every program wrote and the card does without

Sentence = Callable[[str, str, Sequence[str]], str]  # request, split, traits -> what release --inject added


@dataclass(frozen=True)
class Rebuilt:
    """A release with the texts that its sources keep, put back from the workspace."""

    new: bool  # False where the folder held the same already
    back: int  # conversations that have their text again
    lost: dict[str, int]  # reason -> conversations without


@dataclass
class _Tally:
    """What is counted while the rows go by."""

    back: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    untaught: Counter[str] = field(default_factory=Counter)  # of these, those that had a row to learn from
    conditions: Counter[str] = field(default_factory=Counter)  # of the rows to learn from


@shared
def rebuild(ws: Workspace, release: Path | str, to: Path, key: Path | None = None) -> Rebuilt:
    """Makes `to`, a new folder: the release with its texts, as far as this workspace has mined the same ones.

    release: a folder, as published or as downloaded, or NAMESPACE/NAME@VERSION of the Hub. key: its key file.
    """
    proof.check_outside(to, ws.releases)
    with proof.at_hand(release) as home:
        return _rebuilt(ws, home, to, key)


def _rebuilt(ws: Workspace, release: Path, to: Path, key: Path | None) -> Rebuilt:
    mined = read(ws, tables.CONVERSATIONS).select("conversation", "digest", "turns")
    banks, facts = injection.banks(), write.facts_of(release)
    if why := why_withdrawn(release, facts["version"]):
        raise ReleaseError(f"{release}: withdrawn: {why}: put another version back")
    if facts.get("injected_traits") and facts.get("sentences") != banks.digest:
        raise ReleaseError(
            f"{release}: its injected requests have sentences that this version does not know: rebuild it with the"
            f" version that made it, {facts['code_version']}"
        )

    def sentence(name: str, split: str, traits: Sequence[str]) -> str:
        return " ".join(one.text for one in injection.sentences(name, split, traits, banks))

    whose = f"{facts['name']} {facts['version']}"
    held = released_ids.read(key, whose) if key else None
    return put_back(release, to, mined, withheld.erased(ws), sentence, held)


def put_back(
    home: Path, to: Path, mined: pl.DataFrame, gone: pl.DataFrame, sentence: Sentence, key: pl.DataFrame | None
) -> Rebuilt:
    """Makes `to`, a release like `home` with its texts. mined: conversation, digest, turns (all revisions).

    gone: conversation, digest of what somebody asked to remove; it stays out, also where it was mined before.
    """
    proof.check_name(to)
    to = to.resolve() if to.is_symlink() else to
    manifest, _ = proof.verify(home, hub.BESIDE)
    facts = write.facts_of(home)
    if lacking := sorted(Facts.__annotations__.keys() - facts.keys() - card.OLDER.keys() - _NEWER):
        raise ReleaseError(f"{home / write.MANIFEST}: it lacks {', '.join(lacking)}: fetch the release again")
    del facts["files"], facts["row_digests"]
    silent = facts.get("silent") or []
    if not silent:
        raise ReleaseError(f"{home}: nothing to put back: this release holds its texts")
    if key is None:
        raise ReleaseError(f"{home}: it is put back by its key file: --key VERSION.key.parquet, from who published it")
    tally = _Tally()
    stamp = Stamp(version=manifest.version, sha256=sha256(home / SUMS))

    def finish(draft: Path, written: write.Written) -> tuple[Facts, Mapping[str, bytes]]:
        if not tally.back:
            why = ", ".join(f"{reason}: {many}" for reason, many in tally.lost.items())
            raise ReleaseError(
                f"{home}: none of its texts can be put back ({why}): mine the same files of {', '.join(silent)} first"
            )
        made = facts.copy()
        made |= {"silent": [], "put_back": silent, "rebuilt_from": stamp, "counts": written.counts}
        made["conditions"] = {name: tally.conditions[name] for name in facts["conditions"]}
        made["dropped"] = facts["dropped"] | {f"{NOT_BACK}{why}": n for why, n in sorted(tally.untaught.items())}
        kept = {name: (home / name).read_bytes() for name in _KEPT if (home / name).exists()}
        schemas = rows.schemas(manifest.official)
        texts = {"README.md": card.render(made).encode()}
        return made, kept | texts | {"croissant.json": croissant.render(made, written.files, schemas)}

    here = mined.unique(["conversation", "digest"], keep="last")
    here = here.join(gone.with_columns(gone=True), on=["conversation", "digest"], how="left", maintain_order="left")
    here = here.with_columns(turns=pl.when(pl.col("gone").is_null()).then("turns"))
    traits = taxonomy.load(home / "traits.toml")
    shown = frozenset(traits.slugs) - frozenset(facts.get("withheld") or ())
    parts = _parts(home, manifest, _Sources(frozenset(silent), here, key, sentence, traits, shown), tally)
    to.parent.mkdir(parents=True, exist_ok=True)
    new = write.build(to.parent, to.name, parts, manifest.counts, finish)
    return Rebuilt(new, tally.back, dict(tally.lost))


@dataclass(frozen=True)
class _Sources:
    """What a release is put back from."""

    silent: frozenset[str]
    mined: pl.DataFrame  # conversation, digest, turns, gone
    key: pl.DataFrame  # released_ids.KEY
    sentence: Sentence
    taxonomy: Taxonomy
    traits: frozenset[str]  # that may be claimed of a request


def _parts(home: Path, manifest: write.Manifest, have: _Sources, tally: _Tally) -> Iterator[write.Part]:
    mined = have.mined
    names = Names(_catalog(home))
    for split in rows.SPLITS:
        about = _about(home, split, have, tally)
        held = _held(have.key, about)
        left = have.key.join(about.filter("gone"), on="conversation", how="anti")
        added, requests = _added(home, split, have.sentence), _requests(about)
        taught = pl.col("conversation").is_in(added["request"].implode())
        tally.untaught.update(about.filter("gone", taught)["why"])
        told = _told(requests, added, have)
        for config, counts in manifest.counts.items():
            if split not in counts:
                continue
            for table in _tables(home, config, split):
                if config in PROMPTED:
                    table = _prompted(table, requests, added, mined["turns"])
                    if config == "grpo":
                        table = _claimed(table, told)
                        tally.conditions.update(_conditions(table))
                    table = _named(table, config, held, names)
                elif config == "conversations":
                    table = _named(_spoken(table, about, mined["turns"]), config, held, names)
                elif config in ("labels", "reviews"):
                    table = _quoted(_placed(table, config, left), about, mined["turns"])
                yield config, split, table
    for config, counts in manifest.counts.items():
        for split in set(rows.CATALOG) & set(counts):
            yield from ((config, split, table) for table in _tables(home, config, split))


def _tables(home: Path, config: str, split: str) -> Iterator[pa.Table]:
    path = home / write.data_file(config, split)
    if path.exists():
        for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH):
            yield pa.Table.from_batches([batch])


def _about(home: Path, split: str, have: _Sources, tally: _Tally) -> pl.DataFrame:
    """(conversation, _FOUND, cuts, numbers, quiet, gone, why, place): `quiet` where the release has no text, `place`
    its row in `mined` or null. Where no text comes back the conversation is `gone`: nothing else of it does, for who
    asked to be removed may never have been mined here.
    """
    columns = ["conversation", "source", *_FOUND]
    path = home / write.data_file("conversations", split)
    if not path.exists():
        kinds = dict.fromkeys(("conversation", *_FOUND), pl.String()) | {"cut": pl.Int32(), "quiet": pl.Boolean()}
        kinds |= {"gone": pl.Boolean(), "why": pl.String()}
        return pl.DataFrame(
            schema=kinds | {"cuts": pl.List(pl.Int32()), "numbers": pl.List(pl.Int32()), "place": pl.UInt32()}
        )
    here = have.mined.select("digest", "gone", subject="conversation").with_row_index("place")
    held = have.key.with_columns(pl.col("time").str.head(10))  # the day
    of_key = held.select("conversation", "subject", "cuts", "numbers", pl.col(_FOUND).name.prefix("key_"))
    about = (
        pl.read_parquet(path, columns=columns, glob=False)
        .with_columns(quiet=pl.col("source").is_in(list(have.silent)))
        .join(of_key, on="conversation", how="left", maintain_order="left")
        .with_columns(pl.col(_FOUND).name.prefix("own_"))
        .with_columns(pl.coalesce(name, f"key_{name}").alias(name) for name in _FOUND)
        .join(here, on=["subject", "digest"], how="left", maintain_order="left")
    )
    known = pl.col("subject").is_in(have.mined["conversation"].implode()).fill_null(False)
    about = about.with_columns(place=pl.when(pl.col("gone").is_null()).then("place"))
    why = pl.when("gone").then(pl.lit(REMOVED)).when(known).then(pl.lit(OTHER)).otherwise(pl.lit(UNKNOWN))
    about = about.with_columns(gone=pl.col("quiet") & pl.col("place").is_null(), why=why)
    lost = about.filter("gone")
    tally.lost.update(lost["why"])
    tally.back += about.filter("quiet").height - lost.height
    about = about.with_columns(pl.when("gone").then(f"own_{name}").otherwise(name).alias(name) for name in _FOUND)
    return about.select("conversation", *_FOUND, "cuts", "numbers", "quiet", "gone", "why", "place")


def _requests(about: pl.DataFrame) -> pl.DataFrame:
    """`about` by request: of a conversation as `_about` has it, then of its further ones, each with its own cut."""
    each = about.filter(pl.col("cuts").list.len() > 0).explode("cuts", "numbers")
    further = each.with_columns(cut="cuts", conversation=pl.format("{}-{}", "conversation", "numbers"))
    every = about.drop("cuts", "numbers")
    return pl.concat([every, further.select(every.columns)]).rename({"conversation": "request"})


def _added(home: Path, split: str, sentence: Sentence) -> pl.DataFrame:
    """(conversation, request, added, disclosed) of the split's requests; `added` is null unless it was injected."""
    schema = dict.fromkeys(("conversation", "request", "added", "disclosed"), pl.String)
    path = home / write.data_file("grpo", split)
    if not path.exists():
        return pl.DataFrame(schema=schema)
    there = pl.read_parquet(path, glob=False)
    if "request" not in there.columns:  # a release of an earlier version
        there = there.with_columns(request="made_from", disclosed=pl.lit(None, pl.String))
    requests = [
        (name, request, sentence(request, split, traits) if condition == "injected" else None, where)
        for name, request, traits, condition, where in there.select(
            "conversation", "request", "traits", "condition", "disclosed"
        ).iter_rows()
    ]
    return pl.DataFrame(requests, schema=schema, orient="row")


def _prompted(table: pa.Table, about: pl.DataFrame, added: pl.DataFrame, texts: pl.Series) -> pa.Table:
    full = _facts(table["conversation"], added).join(about, on="request", how="left", maintain_order="left")
    kept = ~full["quiet"] | full["place"].is_not_null()
    full, table = full.filter(kept), table.filter(kept.to_arrow())
    if not full["quiet"].any():
        return table
    kind = table.schema.field("prompt").type.value_type
    back = texts.gather(full["place"])
    put = prompts(back, full["cut"], full["quiet"], kind, full["added"], full["disclosed"])
    return _put(table, "prompt", full["quiet"], put)


def _conditions(table: pa.Table) -> list[str]:
    """Of each row, as the manifest counts them."""
    ours = zip(*(table[name].to_pylist() for name in ("conversation", "made_from", "condition")), strict=True)
    return ["further" if name != of and said != "injected" else said for name, of, said in ours]


def _put(table: pa.Table, name: str, there: pl.Series, values: pa.Array) -> pa.Table:
    """The table with these values in one of its columns, where `there`."""
    field = table.schema.field(name)
    mixed = pc.if_else(there.to_arrow(), values.cast(field.type), table[name].combine_chunks())
    return table.set_column(table.schema.get_field_index(name), field, mixed)


def _catalog(home: Path) -> pl.DataFrame:
    path = home / write.data_file("items", "catalog")
    columns = {"item": pl.String, "title": pl.String, "year": pl.Int32}
    return pl.read_parquet(path, columns=[*columns], glob=False) if path.exists() else pl.DataFrame(schema=columns)


def _held(key: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """The items of each request whose text is back, by its `row`, as the key file has them."""
    back = about.filter(pl.col("quiet"), pl.col("place").is_not_null())
    theirs = key.join(back, on="conversation", how="semi").select(*rows.NAMED, "lists")
    return theirs.explode("lists", empty_as_null=False, keep_nulls=False).unnest("lists").with_columns(held=True)


def _named(table: pa.Table, config: str, held: pl.DataFrame, names: Names) -> pa.Table:
    """The table with these items where it has none."""
    bare = pl.DataFrame({"row": pl.Series(table["conversation"].to_pylist(), dtype=pl.String)})
    full = bare.join(held, on="row", how="left", maintain_order="left")
    put = rows.named(config, full, names)
    if config == "safecrs":
        put["completion"] = rows.named("sft", full, names)["completion"]
    for name, values in put.items():
        table = _put(table, name, full["held"].is_not_null(), values)
    return table


def _told(about: pl.DataFrame, added: pl.DataFrame, have: _Sources) -> pl.DataFrame:
    """(conversation, claims) of the requests whose text is put back, as a release with texts has them."""
    back = about.filter(pl.col("quiet"), pl.col("place").is_not_null())
    texts = have.mined[back["place"].to_list()].with_columns(conversation=back["request"])
    known = claims.found(rules.propose(texts, have.taxonomy))
    asked = added.join(back, on="request").with_columns(subject="request")
    return claims.add(asked, known, have.traits, have.taxonomy.slugs).select("conversation", "claims")


def _claimed(table: pa.Table, told: pl.DataFrame) -> pa.Table:
    found = _facts(table["conversation"], told)["claims"]
    put = plain(found, _CLAIMS)
    if "claims" not in table.column_names:  # a release of an earlier version
        return table.append_column("claims", pc.coalesce(put, pa.scalar([], _CLAIMS)))
    return _put(table, "claims", found.is_not_null(), put)


_CLAIMS = pa.list_(pa.string())


def _spoken(table: pa.Table, about: pl.DataFrame, texts: pl.Series) -> pa.Table:
    full = _facts(table["conversation"], about)
    back = full["quiet"] & full["place"].is_not_null()
    kind = table.schema.field("turns").type.value_type
    table = _put(table, "turns", back, turns(texts.gather(full["place"]), back, kind))
    for name in _FOUND:
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, plain(full[name], field.type))
    return table


def _facts(names: pa.ChunkedArray, about: pl.DataFrame) -> pl.DataFrame:
    named = pl.DataFrame({"conversation": pl.Series(names.to_pylist(), dtype=pl.String)})
    return named.join(about, on="conversation", how="left", maintain_order="left")


def _placed(table: pa.Table, config: str, key: pl.DataFrame) -> pa.Table:
    """Labels or reviews with the places of evidence that the key file holds."""
    subject, unit = ("conversation", ["trait"]) if config == "labels" else ("subject", ["trait", "reviewer", "role"])
    held = key.select("conversation", config).explode(config, empty_as_null=False, keep_nulls=False)
    held = held.unnest(config).rename({"conversation": subject, "spans": "held"})
    bare = pl.DataFrame({name: pl.Series(table[name].to_pylist(), dtype=pl.String) for name in (subject, *unit)})
    found = bare.join(held, on=[subject, *unit], how="left", maintain_order="left")["held"]
    return _put(table, "spans", found.is_not_null(), plain(found, table.schema.field("spans").type))


def _quoted(table: pa.Table, about: pl.DataFrame, texts: pl.Series) -> pa.Table:
    """Spans with the words that they point at."""
    subject = "conversation" if "conversation" in table.column_names else "subject"
    full = _facts(table[subject], about)
    places = full.select(pl.when("quiet").then("place")).to_series().to_list()
    spans = [
        _cut(texts[place], row) if place is not None and row else row
        for place, row in zip(places, table["spans"].to_pylist(), strict=True)
    ]
    column, kind = table.schema.get_field_index("spans"), table.schema.field("spans").type
    return table.set_column(column, pa.field("spans", kind), pa.array(spans, kind))


def _cut(text: pl.Series, spans: list[Span]) -> list[Span]:
    lines = text.struct.field("text").to_list()
    return [{**span, "quote": lines[span["turn"]][span["start"] : span["end"]]} for span in spans]

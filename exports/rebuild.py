"""Rebuilds a release that was published without its sources' texts, from a copy that the reader mined.

The key file of the release maps each row to a conversation of the source. A text is put back only if it is the one that
was judged: same conversation, same digest. Requests without their text are left out and counted, as nobody may learn
from an empty prompt; their labels stay.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jinja2 import UndefinedError

from exports import card, claims, croissant, folder as write, formats, hub, injection, released_ids, verify
from exports.arrow import Names, plain, prompts, turns
from exports.build_rows import NOT_BACK
from exports.manifest_types import Facts, Stamp
from exports.report import card_plot
from saferec_builder.core import taxonomy
from saferec_builder.core.errors import ReleaseError
from saferec_builder.core.release_files import SUMS, sha256, why_withdrawn
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.mining.splits import SPLITS
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
_KEYED = ("digest", "cut", "domain", "seeker", "time")  # in the key file if the conversation's text is not released
_COPIED = ("traits.toml", "provenance.json", "CHANGELOG.md", verify.CERTIFICATE, card_plot.PLOT)


@dataclass(frozen=True)
class Rebuilt:
    """The result of putting the texts of a release back from the workspace."""

    new: bool  # False if the folder held the same release already
    back: int  # conversations whose text was put back
    lost: dict[str, int]  # reason -> conversations without their text


@dataclass
class _Tally:
    """Counts that are collected while the tables are written."""

    back: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    untaught: Counter[str] = field(default_factory=Counter)  # those of `lost` that had a row to learn from
    conditions: Counter[str] = field(default_factory=Counter)  # of the rows to learn from, in `grpo`
    disclosed: Counter[str] = field(default_factory=Counter)  # traits of the injected ones
    unanswered: int = 0  # rows of `grpo` that have no list because no answer is known


@shared
def rebuild(ws: Workspace, release: Path | str, to: Path, key: Path | None = None) -> Rebuilt:
    """Makes the new folder `to`: the release with those of its texts that this workspace has mined unchanged.

    release: a folder, as published or as downloaded, or NAMESPACE/NAME@VERSION on the Hub. key: its key file.
    """
    verify.check_outside(to, ws.releases)
    with verify.at_hand(release) as folder:
        verify.check_outside(to, folder)
        banks, facts = injection.banks(), write.facts_of(folder)
        if (reason := why_withdrawn(folder, facts["version"])) is not None:
            raise ReleaseError(f"{folder}: withdrawn: {reason}: put another version back")
        if facts["injected_traits"] and facts["sentences"] != banks.digest:
            raise ReleaseError(
                f"{folder}: its injected requests have sentences that this version does not know: rebuild it with the"
                f" version that made it, {facts['code_version']}"
            )
        key_rows = released_ids.read(key, f"{facts['name']} {facts['version']}") if key else None
        return _put_back(ws, folder, to, banks, key_rows)


def _put_back(ws: Workspace, path: Path, to: Path, banks: injection.Banks, key: pl.DataFrame | None) -> Rebuilt:
    to = verify.resolved(to)
    manifest, _ = verify.verify(path, hub.BESIDE)
    facts = manifest.copy()
    del facts["files"], facts["row_digests"]
    silent = facts["silent"]
    if not silent:
        raise ReleaseError(f"{path}: nothing to put back: this release holds its texts")
    if key is None:
        raise ReleaseError(f"{path}: it is put back by its key file: --key VERSION.key.parquet, from who published it")
    tally = _Tally()
    stamp = Stamp(version=manifest["version"], sha256=sha256(path / SUMS))

    def finish(draft: Path, written: write.Written) -> tuple[Facts, Mapping[str, bytes]]:
        if not tally.back:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in tally.lost.items())
            raise ReleaseError(
                f"{path}: none of its texts can be put back ({reasons}): mine the same files of"
                f" {', '.join(silent)} first"
            )
        rebuilt = facts.copy()
        rebuilt |= {"silent": [], "put_back": silent, "rebuilt_from": stamp, "counts": written.counts}
        rebuilt["safety_rows"] = {} if tally.untaught else facts["safety_rows"]
        rebuilt["conditions"] = {name: tally.conditions[name] for name in facts["conditions"]}
        requests, listed = (sum(written.counts[config].values()) for config in ("grpo", "sft"))
        unclear = {trait: tally.disclosed[trait] for trait in facts["injected_unclear"]}
        rebuilt["short_of_clear"] = requests - tally.unanswered - listed
        rebuilt["injected_unclear"] = {trait: n for trait, n in unclear.items() if n}
        rebuilt["dropped"] = facts["dropped"] | {f"{NOT_BACK}{why}": n for why, n in sorted(tally.untaught.items())}
        copied = {name: (path / name).read_bytes() for name in _COPIED if (path / name).exists()}
        schemas = formats.schemas(manifest["official"])
        try:
            texts = {"README.md": card.render(rebuilt).encode()}
            texts["croissant.json"] = croissant.render(rebuilt, written.files, schemas)
        except (LookupError, TypeError, ValueError, UndefinedError) as fault:
            problem = f"no card can be made of it ({type(fault).__name__}: {fault})".partition("\n")[0]
            raise ReleaseError(f"{path / write.MANIFEST}: {problem}: fetch the release again") from fault
        return rebuilt, copied | texts

    # texts that somebody asked to remove stay out, even if they were mined before
    erased = withheld.erased(ws).with_columns(gone=True)
    mined = read(ws, tables.CONVERSATIONS).select("conversation", "digest", "turns")
    mined = mined.unique(["conversation", "digest"], keep="last")
    mined = mined.join(erased, on=["conversation", "digest"], how="left", maintain_order="left")
    mined = mined.with_columns(turns=pl.when(pl.col("gone").is_null()).then("turns"))
    traits = taxonomy.load(path / "traits.toml")
    claimable = frozenset(traits.slugs) - frozenset(facts["withheld"])
    parts = _parts(path, manifest, _Sources(frozenset(silent), mined, key, banks, traits, claimable), tally)
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        new = write.build(to.parent, to.name, parts, manifest["counts"], finish, "give --to another folder")
    except (LookupError, pa.ArrowException, pl.exceptions.PolarsError) as fault:
        reason = f"{fault}".partition("\n")[0]
        remedy = "fetch both again, or take the program that made it"
        raise ReleaseError(f"{path}: it and its key file do not fit together ({reason}): {remedy}") from fault
    return Rebuilt(new, tally.back, dict(tally.lost))


@dataclass(frozen=True)
class _Sources:
    """What the texts and items of a release are put back from."""

    silent: frozenset[str]
    mined: pl.DataFrame  # conversation, digest, turns, gone
    key: pl.DataFrame  # released_ids.KEY
    banks: injection.Banks
    taxonomy: Taxonomy
    traits: frozenset[str]  # traits that may be claimed of a request


def _parts(release: Path, manifest: Facts, sources: _Sources, tally: _Tally) -> Iterator[write.Part]:
    mined = sources.mined
    texts = dict.fromkeys(("item", "title", "domain"), pl.String)
    items = _read(release, "items", "catalog", texts | {"year": pl.Int32})
    names = Names(items)
    for split in SPLITS:
        conversations = _conversations(release, split, sources, tally)
        request_items = _request_items(sources.key, conversations, items)
        present = sources.key.join(conversations.filter("gone"), on="conversation", how="anti")
        sentences, requests = _sentences(release, split, sources.banks), _requests(conversations)
        is_taught = pl.col("conversation").is_in(sentences["request"].implode())
        tally.untaught.update(conversations.filter("gone", is_taught)["why"])
        request_claims = _request_claims(requests, sentences, sources)
        for config, counts in manifest["counts"].items():
            if split not in counts:
                continue
            for table in _tables(release, config, split):
                if config in PROMPTED:
                    table = _with_prompts(table, requests, sentences, mined["turns"])
                    if config == "grpo":
                        table = _with_claims(table, request_claims)
                        tally.conditions.update(_conditions(table))
                        rows = pl.DataFrame(table)
                        tally.disclosed.update(rows.filter(condition="injected")["traits"].explode())
                        tally.unanswered += rows.filter(truth_kind="none").height if "truth_kind" in rows else 0
                    table = _with_items(table, config, request_items, names)
                elif config == "conversations":
                    table = _with_items(_with_turns(table, conversations, mined["turns"]), config, request_items, names)
                elif config in ("labels", "reviews"):
                    table = _with_quotes(_with_places(table, config, present), conversations, mined["turns"])
                yield config, split, table
    for config, counts in manifest["counts"].items():
        for split in set(formats.CATALOG) & set(counts):
            yield from ((config, split, table) for table in _tables(release, config, split))


def _tables(release: Path, config: str, split: str) -> Iterator[pa.Table]:
    path = release / write.data_file(config, split)
    if path.exists():
        for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH):
            yield pa.Table.from_batches([batch])


def _read(release: Path, config: str, split: str, kinds: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    path = release / write.data_file(config, split)
    return pl.read_parquet(path, columns=[*kinds], glob=False) if path.exists() else pl.DataFrame(schema=kinds)


def _conversations(release: Path, split: str, sources: _Sources, tally: _Tally) -> pl.DataFrame:
    """Returns (conversation, _KEYED, cuts, numbers, quiet, gone, why, place) of the split, and counts in `tally`.

    quiet: not released with its text. place: row in `mined`, or null. gone: neither text nor anything else is put back,
    as a person who asked to be removed may never have been mined here. why: the reason.
    """
    mined = sources.mined.select("digest", "gone", subject="conversation").with_row_index("place")
    key = sources.key.with_columns(pl.col("time").str.head(10))  # the day
    keyed = key.select("conversation", "subject", "cuts", "numbers", pl.col(_KEYED).name.prefix("key_"))
    kinds = dict.fromkeys(("conversation", "source", *_KEYED), pl.String) | {"cut": pl.Int32}
    frame = (
        _read(release, "conversations", split, kinds)
        .with_columns(quiet=pl.col("source").is_in(list(sources.silent)))
        .join(keyed, on="conversation", how="left", maintain_order="left")
        .with_columns(pl.col(_KEYED).name.prefix("own_"))
        .with_columns(pl.coalesce(name, f"key_{name}").alias(name) for name in _KEYED)
        .join(mined, on=["subject", "digest"], how="left", maintain_order="left")
    )
    is_mined = pl.col("subject").is_in(sources.mined["conversation"].implode()).fill_null(False)
    frame = frame.with_columns(place=pl.when(pl.col("gone").is_null()).then("place"))
    reason = pl.when("gone").then(pl.lit(REMOVED)).when(is_mined).then(pl.lit(OTHER)).otherwise(pl.lit(UNKNOWN))
    frame = frame.with_columns(gone=pl.col("quiet") & pl.col("place").is_null(), why=reason)
    missing = frame.filter("gone")
    tally.lost.update(missing["why"])
    tally.back += frame.filter("quiet").height - missing.height
    frame = frame.with_columns(pl.when("gone").then(f"own_{name}").otherwise(name).alias(name) for name in _KEYED)
    return frame.select("conversation", *_KEYED, "cuts", "numbers", "quiet", "gone", "why", "place")


def _requests(conversations: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of `_conversations` by request: the first of each, then further ones with their own cuts."""
    with_further = conversations.filter(pl.col("cuts").list.len() > 0).explode("cuts", "numbers")
    further = with_further.with_columns(cut="cuts", conversation=pl.format("{}-{}", "conversation", "numbers"))
    first = conversations.drop("cuts", "numbers")
    return pl.concat([first, further.select(first.columns)]).rename({"conversation": "request"})


def _sentences(release: Path, split: str, banks: injection.Banks) -> pl.DataFrame:
    """Returns (conversation, request, added, disclosed) of the requests; `added` is null unless one was injected."""
    texts = dict.fromkeys(("conversation", "request", "condition", "disclosed"), pl.String)
    grpo = _read(release, "grpo", split, texts | {"traits": pl.List(pl.String)})
    added = [
        " ".join(part.text for part in injection.sentences(request, split, traits, banks))
        if kind == "injected"
        else None
        for request, traits, kind in grpo.select("request", "traits", "condition").iter_rows()
    ]
    return grpo.select("conversation", "request", pl.Series("added", added, pl.String), "disclosed")


def _with_prompts(table: pa.Table, requests: pl.DataFrame, sentences: pl.DataFrame, texts: pl.Series) -> pa.Table:
    joined = _of_rows(table, sentences).join(requests, on="request", how="left", maintain_order="left")
    has_text = ~joined["quiet"] | joined["place"].is_not_null()
    joined, table = joined.filter(has_text), table.filter(has_text.to_arrow())
    if not joined["quiet"].any():
        return table
    kind = table.schema.field("prompt").type.value_type
    restored = texts.gather(joined["place"])
    values = prompts(restored, joined["cut"], joined["quiet"], kind, joined["added"], joined["disclosed"])
    return _replace(table, "prompt", values, joined["quiet"])


def _conditions(table: pa.Table) -> list[str]:
    """Returns the condition of each row as the manifest counts it."""
    columns = zip(*(table[name].to_pylist() for name in ("conversation", "made_from", "condition")), strict=True)
    return ["further" if name != origin and kind != "injected" else kind for name, origin, kind in columns]


def _replace(table: pa.Table, name: str, values: pa.Array, mask: pl.Series | None = None) -> pa.Table:
    """Returns the table with `values` in the column `name`, in all rows or in those of `mask`."""
    field = table.schema.field(name)
    values = values.cast(field.type)
    if mask is not None:
        values = pc.if_else(mask.to_arrow(), values, table[name].combine_chunks())
    return table.set_column(table.schema.get_field_index(name), field, values)


def _request_items(key: pl.DataFrame, conversations: pl.DataFrame, catalog: pl.DataFrame) -> pl.DataFrame:
    """Returns the items and the domain of each request whose text is put back, by its name, from the key file."""
    restored = conversations.filter(pl.col("quiet"), pl.col("place").is_not_null())
    requests = key.join(restored, on="conversation", how="semi").select("domain", *formats.NAMED, "lists")
    requests = requests.explode("lists", empty_as_null=False, keep_nulls=False).unnest("lists")
    lists = [name for name, kind in requests.schema.items() if kind == pl.List(pl.String)]
    named = pl.concat(requests[name].explode(empty_as_null=False, keep_nulls=False) for name in lists)
    if (unknown := named.filter(~named.is_in(catalog["item"].implode(), nulls_equal=True))).len():
        raise ReleaseError(f"the key file has the item {unknown[0]}, which the release lacks: fetch both again")
    answer = pl.col("truth").list.first().replace_strict(catalog["item"], catalog["domain"], default=None)
    return requests.with_columns(domain=pl.coalesce("domain", answer), held=True).rename({"row": "conversation"})


def _with_items(table: pa.Table, config: str, request_items: pl.DataFrame, names: Names) -> pa.Table:
    """Returns the table with the items (and the domains) of `request_items` in the rows that have them."""
    joined = _of_rows(table, request_items)
    columns = formats.named(config, joined, names)
    if config in ("sft", "sft_raw", "grpo"):
        columns["domain"] = pc.coalesce(table["domain"].combine_chunks(), plain(joined["domain"], pa.string()))
    if config == "safecrs":
        columns["completion"] = formats.named("sft", joined, names)["completion"]
    for name, values in columns.items():
        table = _replace(table, name, values, joined["held"].is_not_null())
    return table


def _request_claims(requests: pl.DataFrame, sentences: pl.DataFrame, sources: _Sources) -> pl.DataFrame:
    """Returns (conversation, claims) of the requests whose text is put back, as in a release with texts."""
    restored = requests.filter(pl.col("quiet"), pl.col("place").is_not_null())
    texts = sources.mined[restored["place"].to_list()].with_columns(conversation=restored["request"])
    proposed = claims.of_rules(rules.propose(texts, sources.taxonomy))
    claimable = sentences.join(restored, on="request").with_columns(subject="request")
    return claims.add(claimable, proposed, sources.traits, sources.taxonomy.slugs).select("conversation", "claims")


def _with_claims(table: pa.Table, request_claims: pl.DataFrame) -> pa.Table:
    joined = _of_rows(table, request_claims)["claims"]
    return _replace(table, "claims", plain(joined, table.schema.field("claims").type), joined.is_not_null())


def _with_turns(table: pa.Table, conversations: pl.DataFrame, texts: pl.Series) -> pa.Table:
    joined = _of_rows(table, conversations)
    restored = joined["quiet"] & joined["place"].is_not_null()
    kind = table.schema.field("turns").type.value_type
    table = _replace(table, "turns", turns(texts.gather(joined["place"]), restored, kind), restored)
    for name in _KEYED:
        table = _replace(table, name, plain(joined[name], table.schema.field(name).type))
    return table


def _of_rows(table: pa.Table, facts: pl.DataFrame, *on: str) -> pl.DataFrame:
    """Returns `facts` of the rows, in their order, by these columns (default: the conversation)."""
    keys = pl.DataFrame(table.select(on or ["conversation"]))
    return keys.join(facts, on=keys.columns, how="left", maintain_order="left")


def _with_places(table: pa.Table, config: str, key: pl.DataFrame) -> pa.Table:
    """Returns labels or reviews with the places of evidence from the key file."""
    subject, unit = ("conversation", ["trait"]) if config == "labels" else ("subject", ["trait", "reviewer", "role"])
    evidence = key.select("conversation", config).explode(config, empty_as_null=False, keep_nulls=False)
    evidence = evidence.unnest(config).rename({"conversation": subject, "spans": "held"})
    spans = _of_rows(table, evidence, subject, *unit)["held"]
    return _replace(table, "spans", plain(spans, table.schema.field("spans").type), spans.is_not_null())


def _with_quotes(table: pa.Table, conversations: pl.DataFrame, texts: pl.Series) -> pa.Table:
    """Returns the table with the quotes that its spans point at."""
    subject = "conversation" if "conversation" in table.column_names else "subject"
    joined = _of_rows(table, conversations.rename({"conversation": subject}), subject)
    places = joined.select(pl.when("quiet").then("place")).to_series().to_list()
    spans = [
        _with_quote(texts[place], row, name) if place is not None and row else row
        for place, row, name in zip(places, table["spans"].to_pylist(), joined[subject], strict=True)
    ]
    return _replace(table, "spans", pa.array(spans, table.schema.field("spans").type))


def _with_quote(text: pl.Series, spans: list[Span], conversation: str) -> list[Span]:
    lines = text.struct.field("text").to_list()
    for span in spans:
        turn, start, end = (span["turn"], span["start"], span["end"]) if span else (-1, -1, -1)
        if None in (turn, start, end) or not (0 <= turn < len(lines) and 0 <= start < end <= len(lines[turn])):
            raise ReleaseError(
                f"the key file has evidence in {conversation} where the text has none (turn {turn}, {start} to {end}):"
                " fetch both again"
            )
    return [{**span, "quote": lines[span["turn"]][span["start"] : span["end"]]} for span in spans]

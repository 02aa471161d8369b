"""Computes which version bump a release needs, from its changes since the one before: patch, minor or major.

patch   changed labels, verdicts or texts of rows, if every row stays: `sft` has none where no item is clear any more
minor   new rows, columns, configs or traits
major   removed rows, columns or traits; all texts of a source removed, or added to one without texts; another split,
        another schema, another meaning of a label
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exports.checks import check_version
from exports.folder import data_file, facts_of, versions
from exports.formats import schemas
from exports.manifest_types import Facts
from saferec_builder.core.counts import many
from saferec_builder.core.errors import ReleaseError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.release_files import SUMS

SIZES = ("none", "patch", "minor", "major")
TRAITS = "traits.toml"  # in a release
KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("conversations", "sft", "sft_raw", "grpo", "safecrs"), ("conversation",)),
    "labels": ("conversation", "trait"),
    "reviews": ("kind", "subject", "trait", "role"),
    "items": ("item",),
    "item_labels": ("item", "trait"),
}


@dataclass(frozen=True)
class Change:
    size: str
    what: str  # "3 rows of labels are gone"


Draft = tuple[Path, Facts]  # a folder and its manifest, which is not yet written in a draft


def changes(before: Draft, after: Draft) -> list[Change]:
    """Returns every kind of change, the largest first."""
    rows = (change for config in KEYS for change in _row_changes(config, before, after))
    return sorted([*terms(before, after), *rows], key=_rank)


def terms(before: Draft, after: Draft) -> list[Change]:
    """Returns the changes that are not of rows, the largest first: of the data's meaning, and of its columns."""
    (old_folder, old), (new_folder, new) = before, after
    meaning = _meaning(old, new, old_folder / TRAITS, new_folder / TRAITS)
    return sorted([*meaning, *_shape(before, after)], key=_rank)


def _rank(change: Change) -> int:
    return -SIZES.index(change.size)


def check_early(before: Path, facts: Facts, taxonomy: Path, kept: pl.DataFrame) -> None:
    """Raises ReleaseError if the version is too small for what is known before any row is built: the terms in `facts`,
    the traits, whether sentences are injected, and the conversations `kept` (conversation, split)."""
    manifest = facts_of(before)
    known = [*_meaning(manifest, facts, before / TRAITS, taxonomy)]
    known += _moved("conversations", *_moves(keys((before, manifest), "conversations"), kept))
    if (injected := manifest["conditions"]["injected"]) and not facts["conditions"]["injected"]:
        known.append(Change("major", f"{injected:,} injected rows are gone"))
    _refuse(before, manifest, facts, sorted(known, key=_rank))


def check(before: Path, draft: Path, facts: Facts) -> list[Change]:
    """Returns the changes since the previous release; raises ReleaseError if the version is too small for them."""
    manifest = facts_of(before)
    for name in (SUMS, "CHANGELOG.md"):  # the next version needs both
        if not (before / name).is_file():
            raise _damaged(before / name, before)
    if (before / "data").is_dir():
        diff = changes((before, manifest), (draft, facts))
    else:
        removed = [Change("major", "rows of somebody who was forgotten are gone")]
        injected = manifest["conditions"]["injected"]
        if injected and not facts["conditions"]["injected"]:
            removed += [Change("major", f"{injected:,} injected rows are gone: `--inject` was not given")]
        diff = [*removed, *terms((before, manifest), (draft, facts))]
    _refuse(before, manifest, facts, diff)
    return diff


def _refuse(release: Path, manifest: Facts, facts: Facts, diff: list[Change]) -> None:
    """Raises ReleaseError if the version in `facts` is too small for these changes, largest first, since the release.
    Before 1.0.0 nothing is promised yet: a major change only needs a higher minor number."""
    old, new = (check_version(side["version"]) for side in (manifest, facts))
    bump = "major" if new[0] > old[0] else "minor" if new[1] > old[1] else "patch"
    needed = diff[0].size if diff else "none"
    if old[0] == 0 and needed == "major":
        needed = "minor"
    if SIZES.index(bump) < SIZES.index(needed):
        raise ReleaseError(
            f"release {facts['version']}: too small a version, {diff[0].what} since {manifest['version']}:"
            f" take {next_free(release, needed)} or higher{_hints(manifest, facts)}"
        )


def _hints(before: Facts, facts: Facts) -> str:
    """Returns hints about options of the release before: without them, rows and texts look removed on purpose."""
    version, again = before["version"], []
    if (injected := before["conditions"]["injected"]) and not facts["conditions"]["injected"]:
        again.append(f"`--inject` again: {injected:,} rows of {version} were injected")
    if before["keeps_unreviewed"] and before["unreviewed"] and not facts["keeps_unreviewed"]:
        again.append(
            f"`--unreviewed` again: {before['unreviewed']:,} lists of {version} are of texts that nobody reviewed"
        )
    if lost := ", ".join(_texts_gone(before, facts)):
        again.append(f"`--with-text` again: {version} has the texts of {lost}")
    return "".join(f", or give {option}" for option in again)


def find(releases: Path, version: str | None = None) -> Path:
    """Returns the folder of that version, or of the newest with data; raises ReleaseError if there is none."""
    names = sorted(versions(releases), key=check_version)
    if not names:
        raise ReleaseError(f"{releases}: no release yet: run `saferec-build release 1.0.0` first")
    if version is not None and version not in names:
        raise ReleaseError(f"{releases}: no release {version!r}; there are {', '.join(names)}")
    folder = releases / (version or next((v for v in reversed(names) if (releases / v / "data").is_dir()), names[-1]))
    if not (folder / "data").is_dir():
        newest = releases / names[-1]
        remedy = f"make a version without them: `saferec-build release {next_free(newest, 'major')}`"
        raise ReleaseError(
            f"{folder}: its data was deleted, as it held somebody who asked to be forgotten:"
            f" {f'{newest.name} is without them' if (newest / 'data').is_dir() else remedy}"
        )
    return folder


def before(releases: Path, version: str) -> Path | None:
    """Returns the newest release below this version."""
    older = [v for v in versions(releases) if check_version(v) < check_version(version)]
    return releases / max(older, key=check_version) if older else None


def above(version: str, size: str) -> str:
    """Returns the next version for a `major` or `minor` change since this one."""
    major, minor, _ = (int(part) for part in version.split("."))
    return f"{major + 1}.0.0" if size == "major" and major else f"{major}.{minor + 1}.0"


def next_free(release: Path, size: str) -> str:
    """Returns the first version that no folder has, for a `major` or `minor` change since the release in this one."""
    version = above(release.name, size)
    while (release.parent / version).exists():
        version = above(version, size)
    return version


def _meaning(old: Facts, new: Facts, old_taxonomy: Path, new_taxonomy: Path) -> Iterator[Change]:
    if old["rule"] != new["rule"]:
        yield Change("major", "the thresholds of the rule changed")
    if old["name"] != new["name"]:
        yield Change("major", "the dataset has another name")
    if old["k"] != new["k"]:
        yield Change("minor", f"lists have {new['k']} items, not {old['k']}")
    if gone := _texts_gone(old, new):
        yield Change("major", f"the texts of {gone[0]} and the lists made of them are gone")
    if released := _texts_gone(new, old):
        yield Change("major", f"the texts of {released[0]} are in it")
    old_traits, new_traits = (_traits(path) for path in (old_taxonomy, new_taxonomy))
    if removed := sorted(set(old_traits) - set(new_traits)):
        yield Change("major", f"{_named(removed, 'is', 'are')} gone")
    if added := sorted(set(new_traits) - set(old_traits)):
        yield Change("minor", f"{_named(added, 'is', 'are')} new")
    if changed := sorted(slug for slug in set(old_traits) & set(new_traits) if old_traits[slug] != new_traits[slug]):
        yield Change("major", f"{_named(changed, 'means', 'mean')} something else (traits.toml)")


def _named(traits: list[str], one: str, several: str) -> str:
    """All of them, with the verb: whoever reads the line decides by it what to label anew."""
    return f"the trait {traits[0]} {one}" if len(traits) == 1 else f"the traits {', '.join(traits)} {several}"


def _texts_gone(before: Facts, after: Facts) -> list[str]:
    """Returns the sources whose texts the first release has and the second withholds."""
    return sorted((set(after["silent"]) - set(before["silent"])).intersection(before["sources"]))


def _traits(path: Path) -> dict[str, dict[str, JsonValue]]:
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["trait"]
        return {row["slug"]: {k: v for k, v in row.items() if k not in ("name", "hint")} for row in rows}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(path, path.parent) from None


def _damaged(path: Path, folder: Path) -> ReleaseError:
    return ReleaseError(f"{path}: missing, or not what a release has there: run `saferec-build verify {folder}`")


def _shape(before: Draft, after: Draft) -> Iterator[Change]:
    for config in sorted(set(before[1]["counts"]) | set(after[1]["counts"])):
        old_path, new_path = (_data_path(draft, config) for draft in (before, after))
        if config not in after[1]["counts"]:
            yield Change("major", f"the config {config} is gone")
        elif config not in before[1]["counts"]:
            yield Change("minor", f"the config {config} is new")
        elif old_path and new_path:
            old, new = (_schema(draft, path) for draft, path in ((before, old_path), (after, new_path)))
            if not all(name in new.names and _is_compatible(new.field(name), old.field(name)) for name in old.names):
                yield Change("major", f"columns of {config} are gone or of another type")
            elif any(new.field(name) != old.field(name) for name in old.names):
                yield Change("minor", f"columns of {config} have new fields")
            elif set(new.names) - set(old.names):
                yield Change("minor", f"{config} has new columns")


def _is_compatible(new: pa.Field, old: pa.Field) -> bool:
    """Whether the new column is the same, or has more fields: `constraints` has a field per trait."""
    if not (pa.types.is_struct(old.type) and pa.types.is_struct(new.type)):
        return bool(new == old)
    return {*old.type} <= {*new.type}


def _schema(draft: Draft, path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        raise _damaged(path, draft[0]) from None


def _data_path(draft: Draft, config: str) -> Path | None:
    paths = (draft[0] / data_file(config, split) for split in draft[1]["counts"].get(config, {}))
    return next((path for path in paths if path.is_file()), None)


def moves(config: str, before: Draft, after: Draft) -> tuple[int, int, int]:
    """Returns how many rows are gone, new, and in another split."""
    return _moves(keys(before, config), keys(after, config))


def _moves(old: pl.DataFrame, new: pl.DataFrame) -> tuple[int, int, int]:
    names = [name for name in old.columns if name != "split"]
    removed, added = (a.join(b, on=names, how="anti").height for a, b in ((old, new), (new, old)))
    moved = old.join(new, on=names, suffix="_new").filter(pl.col("split") != pl.col("split_new")).height
    return removed, added, moved


def _row_changes(config: str, before: Draft, after: Draft) -> Iterator[Change]:
    counts = moves(config, before, after)
    yield from _moved(config, *counts)
    if not any(counts) and not _same(config, before, after):
        yield Change("patch", f"rows of {config} changed")


def _moved(config: str, removed: int, added: int, moved: int) -> Iterator[Change]:
    if moved and config != "reviews":
        yield Change(
            "major", many(moved, f"row of {config} is in another split", f"rows of {config} are in another split")
        )
    if removed:
        yield Change("major", many(removed, f"row of {config} is gone", f"rows of {config} are gone"))
    if added:
        yield Change("minor", many(added, f"row of {config} is new", f"rows of {config} are new"))


def _same(config: str, before: Draft, after: Draft) -> bool:
    if before[1]["row_digests"].get(config) == after[1]["row_digests"].get(config):
        return True
    if config != "reviews":
        return False
    # each version has other pseudonyms, which order the reviews of one unit
    old, new = (
        table(draft, config).drop("reviewer", "split", strict=False).hash_rows().sort() for draft in (before, after)
    )
    return old.equals(new)


def keys(draft: Draft, config: str, *more: str) -> pl.DataFrame:
    """Returns key columns (and `more`) and split of all rows; `nth` numbers a unit's reviews, as pseudonyms differ."""
    unit = [*KEYS[config], *more]
    rows = table(draft, config, unit)
    return rows if config != "reviews" else rows.with_columns(nth=pl.int_range(pl.len()).over(unit))


def table(draft: Draft, config: str, columns: list[str] | None = None) -> pl.DataFrame:
    """Returns the rows of all splits, with `split`; no rows if the release lacks the config."""
    parts: list[pl.DataFrame] = []
    for split, rows in draft[1]["counts"].get(config, {}).items():
        path = draft[0] / data_file(config, split)
        if rows or path.exists():
            if not path.is_file():  # reading a pipe would never end
                raise _damaged(path, draft[0])
            try:
                part = pl.read_parquet(path, columns=columns, glob=False).with_columns(split=pl.lit(split))
                parts.append(pl.concat([*(p.clear() for p in parts[:1]), part]))  # raises if the schemas differ
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):  # a time without a zone panics
                raise _damaged(path, draft[0]) from None
    if parts:
        return pl.concat(parts)
    empty = pl.DataFrame(schemas()[config].empty_table()).with_columns(split=pl.lit(None, pl.String))
    return empty.select(*columns, "split") if columns else empty

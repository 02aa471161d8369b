"""Input files: which files of a folder `mine` reads and passes by, and how rows of files of one name are told apart."""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from saferec_builder import sources
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.sources import Read
from saferec_builder.sources.conversation_rows import Source

SUFFIXES = {  # of the files that are read of a folder
    Source.reddit: (".ndjson", ".jsonl", ".zst", ".gz"),
    Source.inspired: (".tsv", ".tsv.gz"),
    Source.ccpe: (".json", ".json.gz", ".csv", ".csv.gz"),
    Source.opendialkg: (".csv", ".csv.gz", ".jsonl", ".jsonl.gz"),
    Source.saferec: (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".parquet"),
}
_LINES = (".jsonl", ".jsonl.gz")  # for the other sources


def files_of(source: Source, paths: Sequence[Path | str]) -> list[Path]:
    """Every file once; of a folder the files with this source's suffixes."""
    files: list[Path] = []
    for path in map(Path, paths):
        inside = of_folder(path, SUFFIXES.get(source, _LINES)) if path.is_dir() else [path]
        files += inside if source is Source.reddit and path.is_fifo() else map(sources.existing, inside)
    return list(dict.fromkeys(files))


def of_folder(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files of a folder that are read of it, in order. Raises UsageError if there is none."""
    files = [path for path in sorted(folder.iterdir()) if path.name.endswith(suffixes) and not path.is_dir()]
    if not files:
        raise UsageError(
            f"{folder}: no {' or '.join(suffixes)} file in this folder: name the folder or files with some"
        )
    return files


def unread_files(source: Source, paths: Sequence[Path | str]) -> dict[str, JsonValue]:
    """What is not read of the folders: files of other kinds, and subfolders."""
    folders = [path for path in map(Path, paths) if path.is_dir() and source is not Source.hf]
    return passed_by(folders, files_of(source, folders))


def passed_by(folders: Sequence[Path], taken: Collection[Path]) -> dict[str, JsonValue]:
    """What the folders hold besides the files that are `taken`, the first five by name."""
    inside = [p for folder in folders for p in sorted(folder.iterdir()) if not p.name.startswith(".")]
    taken = {*taken}
    names = [str(p) for p in inside if p not in taken]
    return {"passed_by": [*names[:5], *([f"{len(names) - 5} more"] if len(names) > 5 else [])]} if names else {}


def places(files: list[Path]) -> list[tuple[Path, str]]:
    """(file, place of its rows: the file's name, with its folders if two files have the same name)."""
    of_name: dict[str, list[Path]] = {}
    for path in files:
        of_name.setdefault(path.name, []).append(path.absolute())
    common = {name: os.path.commonpath([path.parent for path in paths]) for name, paths in of_name.items()}
    return [(path, os.path.relpath(path.absolute(), common[path.name])) for path in files]


def placed(read: Read, place: str) -> Read:
    """The rows read from a file, under its place: a reader knows only the file's name."""
    whole = (pl.lit(place.removesuffix(Path(place).name)) + pl.col("^place$")).name.keep()  # items have no place
    return replace(read, rows=read.rows.with_columns(whole), drops=read.drops.with_columns(whole))

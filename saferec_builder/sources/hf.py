"""Reads conversations from a Hugging Face dataset or a local copy, with a map from our columns to its own.

Columns: messages (must be there), id, time, user, domain, accepted, seen. A message is {"role", "content"}, or
{"from", "value"} as ShareGPT writes it; human and seeker are users, gpt and recommender assistants. In a CSV the lists
(messages, accepted, seen) are JSON in a cell.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import yaml

from saferec_builder import sources
from saferec_builder.core.errors import KeyTwice, SourceError, UsageError, strict_json
from saferec_builder.core.shapes import field_names
from saferec_builder.sources import Left, Read, Row, Rows, conversation_rows as conversations, messages

SOURCE = "hf"
COLUMNS = ("messages", "id", "time", "user", "domain", "accepted", "seen")
_ROLES = {"human": "user", "seeker": "user", "gpt": "assistant", "bot": "assistant", "recommender": "assistant"}
_KINDS = dict.fromkeys((".json", ".jsonl", ".ndjson"), "json") | dict.fromkeys((".csv", ".tsv"), "csv")
_KINDS |= {".parquet": "parquet", ".arrow": "arrow"}
# what `datasets` raises of odd data; of an odd header of a card the last four
_FAULTS: tuple[type[Exception], ...] = (ValueError, OSError, KeyError, ImportError, StopIteration, OverflowError)
_FAULTS += (yaml.YAMLError, TypeError, AttributeError, RecursionError)
_DEEP = 500  # brackets in a line, from which on they are counted: deep ones end the process in the library's reader


def read(name: str, columns: dict[str, str], split: str) -> Read:
    """Conversations of a dataset as the library `datasets` opens it: a folder saved by it, files, or an id."""
    known_as = name
    if Path(name).exists():
        name = os.path.abspath(name)  # the library does not know `.`
        known_as = Path(name).name  # no folder of this machine in a table
    return of_rows(f"{SOURCE}:{known_as}", _rows(name, split, checked(columns)), columns)


def of_rows(dataset: str, rows: Iterable[Row], columns: dict[str, str]) -> Read:
    """The same from rows; `place` is the dataset and the number of the row."""
    short = dataset.rsplit("/", 1)[-1]
    numbered = ((f"{short}:{n}", sources.sound(row)) for n, row in enumerate(rows, 1))
    left: Counter[str] = Counter()

    def one(place: str, row: Row) -> Rows:
        mapped = {ours: row[theirs] for ours in COLUMNS if (theirs := columns.get(ours, ours)) in row}
        mapped |= {name: conversations.unpacked(mapped.get(name)) for name in ("messages", "accepted", "seen")}
        mapped["messages"] = _messages(mapped["messages"])
        given = {name: value for name, value in mapped.items() if value is not None}
        found, skipped = messages.conversation(dataset, place, _texts(given))
        left.update(skipped)
        return [found]

    found, drops = sources.each("mine", SOURCE, numbered, one)
    return conversations.read(found, drops, left)


def columns(pairs: list[str]) -> dict[str, str]:
    """{ours: theirs} of `messages=conversation` words."""
    return checked({ours: theirs for ours, _, theirs in (pair.partition("=") for pair in pairs)})


def checked(columns: dict[str, str]) -> dict[str, str]:
    """The map {ours: theirs}, or UsageError where it names a column that we do not have, or none of theirs."""
    wrong = [f"{ours}={theirs}" for ours, theirs in columns.items() if ours not in COLUMNS or not theirs]
    if wrong:
        raise UsageError(f"--column {wrong[0]}: expected OURS=THEIRS with OURS one of {', '.join(COLUMNS)}")
    return columns


def _texts(row: Row) -> Row:
    """Times of day and lists come as objects of their own from typed columns."""
    time = row.get("time")
    return row | {"time": time.isoformat()} if hasattr(time, "isoformat") else row


def _messages(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [_message(m) if isinstance(m, dict) else m for m in value]


def _message(raw: Row) -> Row:
    role = raw.get("role") or raw.get("from") or raw.get("speaker")
    content = next((raw[k] for k in ("content", "value", "text") if raw.get(k) is not None), None)
    known = _ROLES.get(role.lower(), role.lower()) if isinstance(role, str) else role
    return {"role": known, "content": content} | ({"items": raw["items"]} if raw.get("items") else {})


def _kind(path: Path) -> str:
    """What `datasets` calls such a file; any other word would be a name on the Hub for it."""
    if path.suffix not in _KINDS:
        raise UsageError(
            f"mine hf {path}: {path.suffix!r} is no kind of file that it reads: expected {', '.join(_KINDS)}"
        )
    return _KINDS[path.suffix]


def _no_key_twice(path: Path) -> None:
    """Of a key that comes twice in a JSON array the library takes the last; lines of JSON it refuses itself."""
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path] * (path.suffix == ".json" and path.is_file()):
        try:
            with file.open("rb") as opened:
                array = opened.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
            if array:
                strict_json(file.read_bytes())
        except KeyTwice as fault:
            raise SourceError(f"mine hf {file}: {fault}: expected each once") from None
        except (OSError, ValueError, RecursionError):  # the library says what it is
            pass


def _not_deep(path: Path) -> None:
    """Stops at JSON that is nested without end."""
    for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
        if _KINDS.get(file.suffix) != "json" or not file.is_file():
            continue
        with sources.opened(file) as opened:
            for number, line in sources.lines(opened):
                if isinstance(line, Left) and file.suffix != ".json":  # an array may stand in one line
                    raise SourceError(f"mine hf {file}:{number}: {line}: {line.detail}: take the line out")
                if isinstance(line, Left) or line.count(b"[") + line.count(b"{") < _DEEP:
                    continue
                found = sources.json_object(line)
                if isinstance(found, Left) and "recursion" in found.detail:
                    raise SourceError(f"mine hf {file}:{number}: brackets without end: take the line out")


def _inside(folder: Path, files: Mapping[str, Iterable[str]] | None) -> None:
    """Stops where the card of a folder names data that lies elsewhere: it is not what the user gave to be read."""
    home = os.path.abspath(folder)
    for file in (file for of_split in (files or {}).values() for file in of_split):
        if not os.path.abspath(file).startswith(f"{home}{os.sep}"):
            raise SourceError(f"mine hf {folder}: its README.md names {file}, which is not in it: give that file")


def _why(fault: BaseException) -> str:
    """What the library says, or what its words for any fault while it reads come from."""
    cause = fault.__cause__ or fault
    both = [getattr(cause, f"{which}_column_names", ()) for which in ("requested", "table")]
    if all(both):
        first, other = map(field_names, both)
        return f"its files are of several shapes, some with {first}, others with {other}: give those of one shape"
    return sources.readable(str(cause)) or "no rows in it"  # of an empty file it says nothing


def _rows(name: str, split: str, columns: dict[str, str]) -> Iterator[Row]:
    try:
        import datasets
    except ImportError:
        raise UsageError("mine hf needs the library datasets: pip install 'saferec-builder[hub]'") from None
    datasets.disable_progress_bars()  # they are not ours
    with tempfile.TemporaryDirectory(prefix="saferec-") as cache:  # its tables of raw texts go with it
        yield from _opened(datasets, name, split, columns, cache)


def _opened(datasets: ModuleType, name: str, split: str, columns: dict[str, str], cache: str) -> Iterator[Row]:
    path = Path(name)
    if path.suffix in _KINDS and not path.is_dir():  # the Hub has no such names: it would be asked for a long time
        sources.existing(path)
    _no_key_twice(path)
    _not_deep(path)
    for packed in path.rglob("*.parquet") if path.is_dir() else [path] * (path.suffix == ".parquet"):
        sources.bounded_parquet(packed)
    try:
        if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
            loaded = datasets.load_from_disk(name)
            found = loaded[split] if isinstance(loaded, datasets.DatasetDict) else loaded
        elif path.is_file():
            found = datasets.load_dataset(_kind(path), data_files=name, split="train", cache_dir=cache)
        else:
            if path.is_dir():
                _inside(path, datasets.load_dataset_builder(name, cache_dir=cache).config.data_files)
            found = datasets.load_dataset(name, split=split, cache_dir=cache)
    except (*_FAULTS, datasets.exceptions.DatasetsError) as fault:
        raise SourceError(f"mine hf {name}: datasets cannot open it: {_why(fault)}") from None
    for ours, theirs in ({"messages": "messages"} | columns).items():
        if theirs not in found.column_names:
            raise UsageError(
                f"mine hf {name}: no column {theirs!r}, found {', '.join(found.column_names)}: say which one holds the"
                f" {ours} with --column {ours}=NAME"
            )
    number = 0
    try:
        for row in found:
            number += 1
            yield row
    except _FAULTS as fault:
        why = f"cannot be read after row {number} ({sources.readable(str(fault))})"
        raise SourceError(
            f"mine hf {name}: {why}: expected text, lists and numbers: give the rows as JSON lines"
        ) from None

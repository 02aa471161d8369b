"""Reads conversations from a Hugging Face dataset or a local copy, with a map from our columns to those of the dataset.

Columns: messages (required), id, time, user, domain, accepted, seen. A message is {"role", "content"}, or {"from",
"value"} as in ShareGPT; human and seeker are users; gpt, bot and recommender are assistants. In a CSV the lists
(messages, accepted, seen) are JSON in a cell.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from types import ModuleType

from saferec_builder import sources
from saferec_builder.core.errors import KeyTwice, SourceError, UsageError, strict_json
from saferec_builder.core.value_shapes import field_names
from saferec_builder.sources import Left, Read, Row, Rows, conversation_rows as conversations, messages

SOURCE = "hf"
COLUMNS = ("messages", "id", "time", "user", "domain", "accepted", "seen")
_ROLES = {"human": "user", "seeker": "user", "gpt": "assistant", "bot": "assistant", "recommender": "assistant"}
_KINDS = dict.fromkeys((".json", ".jsonl", ".ndjson"), "json") | dict.fromkeys((".csv", ".tsv"), "csv")
_KINDS |= {".parquet": "parquet", ".arrow": "arrow"}
# what `datasets` raises for broken data; the last three, and YAMLError, for a broken header of a dataset card
_FAULTS: tuple[type[Exception], ...] = (ValueError, OSError, KeyError, ImportError, StopIteration, OverflowError)
_FAULTS += (TypeError, AttributeError, RecursionError)
_EXACT = 2**53  # below it a float is one whole number: pandas makes floats of a column of numbers with a blank cell
_DEEP = 500  # brackets in a line, from which on its depth is tested: deep JSON would crash the library's reader


def read(name: str, columns: dict[str, str], split: str) -> Read:
    """The conversations of a dataset that the library `datasets` can open: a folder it saved, files, or an id."""
    dataset = name
    if Path(name).exists():
        if Path(name).name in ("", ".."):
            name = os.path.abspath(name)  # the library does not know `.`
        dataset = Path(name).name  # no path of this machine gets into a table
    return of_rows(f"{SOURCE}:{dataset}", _dataset_rows(name, split, checked(columns)), columns)


def of_rows(dataset: str, rows: Iterable[Row], columns: dict[str, str]) -> Read:
    """The conversations of rows; `place` is the dataset and the number of the row."""
    short = dataset.rsplit("/", 1)[-1]
    numbered = ((f"{short}:{n}", sources.without_surrogates(row)) for n, row in enumerate(rows, 1))
    left_out: Counter[str] = Counter()

    def convert(place: str, row: Row) -> Rows:
        mapped = {ours: row[theirs] for ours in COLUMNS if (theirs := columns.get(ours, ours)) in row}
        mapped |= {name: conversations.unpacked(mapped.get(name)) for name in ("messages", "accepted", "seen")}
        if isinstance(turns := mapped["messages"], list):
            mapped["messages"] = [_message(turn) if isinstance(turn, dict) else turn for turn in turns]
        if isinstance(time := mapped.get("time"), date):  # of a typed column
            mapped["time"] = time.isoformat()
        for name in ("id", "user"):
            if isinstance(number := mapped.get(name), float) and number.is_integer() and abs(number) < _EXACT:
                mapped[name] = int(number)
        record, skipped = messages.conversation(dataset, place, mapped)
        left_out.update(skipped)
        return [record]

    records, drops = sources.parse_rows("mine", SOURCE, numbered, convert)
    return conversations.read(records, drops, left_out)


def columns(pairs: list[str]) -> dict[str, str]:
    """The map {ours: theirs} from words such as `messages=conversation`."""
    return checked({ours: theirs for ours, _, theirs in (pair.partition("=") for pair in pairs)})


def checked(columns: dict[str, str]) -> dict[str, str]:
    """Returns the map {ours: theirs}. Raises UsageError if `ours` is not in COLUMNS or `theirs` is empty."""
    wrong = [f"{ours}={theirs}" for ours, theirs in columns.items() if ours not in COLUMNS or not theirs]
    if wrong:
        raise UsageError(f"--column {wrong[0]}: expected OURS=THEIRS with OURS one of {', '.join(COLUMNS)}")
    return columns


def _message(raw: Row) -> Row:
    role = raw.get("role") or raw.get("from") or raw.get("speaker")
    content = next((raw[k] for k in ("content", "value", "text") if raw.get(k) is not None), None)
    role_name = _ROLES.get(role.lower(), role.lower()) if isinstance(role, str) else role
    return {"role": role_name, "content": content} | ({"items": raw["items"]} if raw.get("items") else {})


def _kind(path: Path) -> str:
    """The name that `datasets` has for this kind of file; it would look any other name up on the Hub."""
    if path.suffix not in _KINDS:
        raise UsageError(
            f"mine hf {path}: {path.suffix!r} is no kind of file that it reads: expected {', '.join(_KINDS)}"
        )
    return _KINDS[path.suffix]


def _check_json(path: Path) -> None:
    """Raises SourceError for JSON that the library misreads: of a key that comes twice in an array it takes the last
    (in JSON lines it raises an error itself), and brackets that are nested too deeply crash it."""
    for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
        if _KINDS.get(file.suffix) != "json" or not file.is_file():
            continue
        may_be_array = file.suffix == ".json"
        try:
            strict_json(sources.content(file) if may_be_array else b"{}")
        except KeyTwice as fault:
            raise SourceError(f"mine hf {file}: {fault}: expected each once") from None
        except (ValueError, RecursionError):  # the library, or what follows, reports these
            pass
        with sources.opened(file) as opened:
            for number, line in sources.lines(opened):
                if isinstance(line, Left) and not may_be_array:  # an array may be on one line
                    raise SourceError(f"mine hf {file}:{number}: {line}: {line.detail}: take the line out")
                if isinstance(line, Left) or line.count(b"[") + line.count(b"{") < _DEEP:
                    continue
                parsed = sources.json_object(line)
                if isinstance(parsed, Left) and "recursion" in parsed.detail:
                    raise SourceError(f"mine hf {file}:{number}: brackets without end: take the line out")


def _inside(folder: Path, files: Mapping[str, Iterable[str]] | None) -> None:
    """Raises SourceError if the card of a folder names data outside of it, which the user did not choose to read."""
    root = os.path.abspath(folder)
    for file in (file for of_split in (files or {}).values() for file in of_split):
        if not os.path.abspath(file).startswith(f"{root}{os.sep}"):
            raise SourceError(f"mine hf {folder}: its README.md names {file}, which is not in it: give that file")


def _reason(error: BaseException) -> str:
    """The library's message, or the message of its cause where the library only says that something failed."""
    cause = error.__cause__ or error
    shapes = [getattr(cause, f"{which}_column_names", ()) for which in ("requested", "table")]
    if all(shapes):
        first, other = map(field_names, shapes)
        return f"its files are of several shapes, some with {first}, others with {other}: give those of one shape"
    return sources.readable(str(cause)) or "no rows in it"  # the message is empty for an empty file


def _dataset_rows(name: str, split: str, columns: dict[str, str]) -> Iterator[Row]:
    try:
        import datasets
    except ImportError:
        raise UsageError("mine hf needs the library datasets: pip install 'saferec-builder[hub]'") from None
    datasets.disable_progress_bars()  # they would mix with our output
    with tempfile.TemporaryDirectory(prefix="saferec-") as cache:  # holds raw texts, so it is deleted
        yield from _loaded_rows(datasets, name, split, columns, cache)


def _loaded_rows(datasets: ModuleType, name: str, split: str, columns: dict[str, str], cache: str) -> Iterator[Row]:
    import yaml  # comes with `datasets`, and is no dependency of ours

    path = Path(name)
    if path.suffix in _KINDS and not path.is_dir():  # not a name on the Hub: it would be queried for a long time
        sources.existing(path)
    _check_json(path)
    for packed in path.rglob("*.parquet") if path.is_dir() else [path] * (path.suffix == ".parquet"):
        sources.bounded_parquet(packed)
    try:
        if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
            loaded = datasets.load_from_disk(name)
            dataset = loaded[split] if isinstance(loaded, datasets.DatasetDict) else loaded
        elif path.is_file():
            dataset = datasets.load_dataset(_kind(path), data_files=name, split="train", cache_dir=cache)
        else:
            if path.is_dir():
                _inside(path, datasets.load_dataset_builder(name, cache_dir=cache).config.data_files)
            dataset = datasets.load_dataset(name, split=split, cache_dir=cache)
    except (*_FAULTS, yaml.YAMLError, datasets.exceptions.DatasetsError) as fault:
        raise SourceError(f"mine hf {name}: datasets cannot open it: {_reason(fault)}") from None
    for ours, theirs in ({"messages": "messages"} | columns).items():
        if theirs not in dataset.column_names:
            raise UsageError(
                f"mine hf {name}: no column {theirs!r}, found {', '.join(dataset.column_names)}: say which one holds"
                f" the {ours} with --column {ours}=NAME"
            )
    number = 0
    try:
        for row in dataset:
            number += 1
            yield row
    except _FAULTS as fault:
        reason = f"cannot be read after row {number} ({sources.readable(str(fault))})"
        raise SourceError(
            f"mine hf {name}: {reason}: expected text, lists and numbers: give the rows as JSON lines"
        ) from None

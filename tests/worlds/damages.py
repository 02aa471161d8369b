"""Damages to files, by the form of the file: functions from a good file's bytes to the damaged bytes."""

import gzip
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Bytes = Callable[[bytes], bytes]

HALF = b"\xf0\x9f"  # of a character
MANY = 60_000


def at_row(new: Bytes) -> Bytes:
    """Changes the fourth line, as the first may be a header."""

    def change(raw: bytes) -> bytes:
        rows = raw.split(b"\n")
        rows[min(3, len(rows) - 1)] = new(rows[min(3, len(rows) - 1)])
        return b"\n".join(rows)

    return change


ANY: dict[str, Bytes] = {
    "empty": lambda raw: b"",
    "one byte": lambda raw: raw[:1],
    "cut": lambda raw: raw[: len(raw) // 2 - 9],
    "the last byte cut": lambda raw: raw.rstrip(b"\n")[:-1],
    "NULs": lambda raw: bytes(4096),
    "a NUL inside": lambda raw: raw[: len(raw) // 2] + b"\0" + raw[len(raw) // 2 :],
    "half a character": lambda raw: raw[: len(raw) // 2] + HALF + raw[len(raw) // 2 :],
    "noise": lambda raw: bytes(range(256)) * 64,
    "a line of 10 MB": lambda raw: raw + b"x" * (10 << 20),
    "a line of 40 MB": lambda raw: b"x" * (40 << 20) + b"\n" + raw,
    "a packed bomb": lambda raw: gzip.compress(b"\n" * (256 << 20), 1),
    "newlines": lambda raw: raw + b"\n" * (4 << 20),
}
TEXT: dict[str, Bytes] = {
    "a mark of order": lambda raw: b"\xef\xbb\xbf" + raw,
    "two marks of order": lambda raw: b"\xef\xbb\xbf" * 2 + raw,
    "UTF-16": lambda raw: raw.decode().encode("utf-16"),
    "UTF-32": lambda raw: raw.decode().encode("utf-32"),
    "carriage returns": lambda raw: raw.replace(b"\n", b"\r"),
    "odd ends of lines": lambda raw: raw.replace(b"\n", "\u2028".encode()),
    "for a terminal": at_row(lambda row: b"\x1b]0;owned\x07\x1b[2J" + row),
}
JSON: dict[str, Callable[[str], str]] = {  # of the text of one object
    "half a pair in a value": lambda row: row[:-1] + ', "user": "\\ud800"}',
    "half a pair in a key": lambda row: row[:-1] + ', "\\udfff": 1}',
    "a key twice": lambda row: row[:-1] + "," + row[1:],
    "deep": lambda row: row[:-1] + ', "deep": ' + "[" * MANY + "]" * MANY + "}",
    "deep objects": lambda row: '{"a":' * MANY + "1" + "}" * MANY,
    "not closed": lambda row: "[" * MANY,
    "a long number": lambda row: row[:-1] + ', "n": ' + "9" * 5_000 + "}",
    "a large number": lambda row: row[:-1] + ', "n": 1e999, "time": 1e300, "year": 1e99, "id": 1e400}',
    "no number": lambda row: row[:-1] + ', "n": NaN, "time": NaN, "year": Infinity, "id": NaN}',
    "numbers for all": lambda row: json.dumps(dict.fromkeys(json.loads(row), 7)),
    "nothing for all": lambda row: json.dumps(dict.fromkeys(json.loads(row))),
    "lists for all": lambda row: json.dumps({key: [[]] for key in json.loads(row)}),
    "objects for all": lambda row: json.dumps({key: {"a": {}} for key in json.loads(row)}),
    "words for all": lambda row: json.dumps(dict.fromkeys(json.loads(row), "x\x1b[2J\u202e")),
    "lists of nothing": lambda row: json.dumps({key: [None, 5, "x", {}] for key in json.loads(row)}),
    "a list": lambda row: "[1, 2]",
    "a text": lambda row: '"x"',
    "nothing": lambda row: "null",
    "many keys": lambda row: row[:-1] + "".join(f', "k{n}": {n}' for n in range(50_000)) + "}",
    "a long text": lambda row: json.dumps(dict.fromkeys(json.loads(row), "needles " * 200_000)),
}
CSV: dict[str, Bytes] = {
    "an open quote": at_row(lambda row: b'"' + row),
    "quotes": at_row(lambda row: b'"' * 9_999),
    "a field too many": at_row(lambda row: row + b",x,y,z\tx\ty\tz"),
    "a field too few": at_row(lambda row: row[:1]),
    "a column twice": lambda raw: b"title," + raw.replace(b"\n", b"\nx,").replace(b"title,", b"title,title,", 1),
    "no header": lambda raw: raw.split(b"\n", 1)[1],
    "the header again": at_row(lambda row: b"title,year,domain,source,topic"),
    "a large cell": at_row(lambda row: row.replace(b"no", b"x" * 2_000_000)),
    "a large number": at_row(lambda row: row.replace(b"2003", b"9" * 5_000).replace(b"1990", b"1e999")),
    "no number": at_row(lambda row: row.replace(b"2003", b"NaN").replace(b"1990", "\u00b2".encode())),
    "many columns": lambda raw: raw.replace(b"\n", b"," * 20_000 + b"\n"),
    "a formula": at_row(lambda row: b'=HYPERLINK("x")' + row),
    "only commas": at_row(lambda row: b",,,,,"),
}


def each_value(raw: bytes, value: bytes) -> bytes:
    """Every setting of a TOML file has this value."""
    return re.sub(rb"^([a-zA-Z].*? = ).*$", lambda match: match[1] + value, raw, flags=re.M)


TOML: dict[str, Bytes] = {
    "a key twice": lambda raw: raw + b"\n[zz]\na = 1\na = 2\n",
    "a part twice": lambda raw: raw + b"\n[zz]\n[zz]\n",
    "deep": lambda raw: b"a = " + b"[" * MANY + b"]" * MANY + b"\n" + raw,
    "dots": lambda raw: b".".join([b"a"] * 5_000) + b" = 1\n" + raw,
    "a long number": lambda raw: b"a = " + b"9" * 5_000 + b"\n" + raw,
    "no number": lambda raw: b"a = nan\nb = -inf\n" + raw,
    "numbers for all": lambda raw: each_value(raw, b"7"),
    "words for all": lambda raw: each_value(raw, b'"\\u001b[2J"'),
    "lists for all": lambda raw: each_value(raw, b"[[], {}]"),
    "a date": lambda raw: b"a = 9999-12-31T23:59:60Z\n" + raw,
    "an escape that is none": lambda raw: b'a = "\\ud800"\n' + raw,
    "a part for a list": lambda raw: b"[dataset]\n[[dataset]]\n" + raw,
}
YAML: dict[str, str] = {
    "a tag that runs": '!!python/object/apply:os.system ["touch ran"]',
    "a tag": "!x 1",
    "laughs": "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]),
    "itself": "&a [*a]",
    "itself, an object": "saferec: &a\n  lora: *a",
    "deep": "[" * 5_000 + "]" * 5_000,
    "a key that is a list": "? [1, 2]\n: 3",
    "a number": "5",
    "a list": "- 1\n- 2",
    "a date for a key": "2001-01-01: 5\nsaferec: {2001-01-01: 7}",
    "a key twice": "configs: 1\nconfigs: 2\nsaferec: {lora: 4, lora: 8}",
    "a long number": "saferec: {lora: " + "9" * 5_000 + "}\nlearning_rate: " + "9" * 5_000,
    "no number": "saferec: {lora: .nan}\nlearning_rate: .inf\nper_device_train_batch_size: .nan",
    "an odd number": "saferec: {lora: 16}\nlearning_rate: 1:2:3:4\nx: 0x_1",
    "words": 'saferec: {lora: "\\e[2J"}\nlearning_rate: "\\e[2J"',
    "not closed": "saferec: {lora: 16",
    "tabs": "\tsaferec:\n\t\tlora: 16",
    "two documents": "a: 1\n---\nb: 2",
    "a merge": "saferec:\n  <<: 5",
}


def columns(change: Callable[[str, pa.ChunkedArray], pa.Array | pa.ChunkedArray]) -> Bytes:
    """Replaces every column by change(name, column)."""

    def changed(raw: bytes) -> bytes:
        rows = pq.read_table(io.BytesIO(raw))
        return packed(pa.table({name: change(name, rows[name]) for name in rows.column_names}))

    return changed


def packed(rows: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(rows, file, compression="zstd")
    return file.getvalue()


def deep(depth: int) -> pa.Array:
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return pa.array([value])


def strange(name: str, column: pa.ChunkedArray) -> pa.Array:
    """Bytes that are no UTF-8, declared as text."""
    data = pa.array([b"\xff\xfe\xed\xa0\x80"] * len(column), pa.binary())
    return pa.StringArray.from_buffers(len(data), data.buffers()[1], data.buffers()[2])


def repeated(raw: bytes) -> bytes:
    """One text, referred to two million times: about 47 KB that hold 1.6 GB for each column."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000_000, pa.int32()), pa.array(["x" * 800]))
    return packed(pa.table(dict.fromkeys(pq.read_schema(io.BytesIO(raw)).names, texts)))


PARQUET: dict[str, Bytes] = {
    "the end cut": lambda raw: raw[:-9],
    "a footer of no length": lambda raw: raw[:-8] + b"\xff\xff\xff\x7f" + raw[-4:],
    "a footer of noise": lambda raw: raw[:-60] + bytes(range(50)) + raw[-10:],
    "pages of noise": lambda raw: raw[:4] + bytes(b ^ 0x55 for b in raw[4:200]) + raw[200:],
    "sealed": lambda raw: raw[:-4] + b"PARE",
    "a bomb": repeated,
    "no rows": lambda raw: packed(pq.read_table(io.BytesIO(raw)).slice(0, 0)),
    "no columns": lambda raw: packed(pa.table({})),
    "a column more": lambda raw: packed(
        pq.read_table(io.BytesIO(raw)).append_column("zz", pa.array([[1]] * pq.read_table(io.BytesIO(raw)).num_rows))
    ),
    "numbers": columns(lambda name, column: pa.array([7] * len(column))),
    "nothing": columns(lambda name, column: pa.nulls(len(column))),
    "nothing, of its type": columns(lambda name, column: pa.nulls(len(column), column.type)),
    "bytes": columns(lambda name, column: pa.array([b"\xff"] * len(column))),
    "no UTF-8": columns(strange),
    "times": columns(
        lambda name, column: pa.array([253402300799999] * len(column), pa.timestamp("ms", "Europe/Nowhere"))
    ),
    "far times": columns(lambda name, column: pa.array([2**61] * len(column), pa.timestamp("ms"))),
    "maps": columns(lambda name, column: pa.array([[("a", 1)]] * len(column), pa.map_(pa.string(), pa.int64()))),
    "decimals": columns(lambda name, column: pa.array([5] * len(column)).cast(pa.decimal256(50, 2))),
    "no numbers": columns(lambda name, column: pa.array([float("nan")] * len(column))),
    "lists of lists": columns(lambda name, column: pa.array([[["x"]]] * len(column))),
    "objects": columns(lambda name, column: pa.array([{"role": None, "content": None, "a": {"b": 1}}] * len(column))),
    "deep": lambda raw: packed(pa.table(dict.fromkeys(pq.read_schema(io.BytesIO(raw)).names, deep(20)))),
    "many columns": lambda raw: packed(pa.table({f"c{n}": [1] for n in range(5_000)})),
    "an empty name": lambda raw: packed(
        pq.read_table(io.BytesIO(raw)).append_column("", pq.read_table(io.BytesIO(raw)).column(0))
    ),
    "durations": columns(lambda name, column: pa.array([2**60] * len(column), pa.duration("s"))),
}

# ---- what is in the place of the file


def sparse(path: Path) -> None:
    """A file of 3 GB that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(3 << 30)


PLACES: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a circle of links": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "3 GB of nothing": sparse,
}
NAMES = {"a name of no encoding": b"t\xff\x1b[2J", "a name for a terminal": b"t\x1b]0;owned\x07\n"}
FOR: dict[str, dict[str, Bytes]] = {
    "jsonl": TEXT, "json": TEXT, "csv": TEXT | CSV, "tsv": TEXT | CSV, "toml": TEXT | TOML, "yaml": TEXT, "text": TEXT,
    "parquet": PARQUET, "zst": {}, "gz": {},
}  # fmt: skip


def numbers(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every number of a document, except for those in lists: the places to draw from."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from numbers(value, (*path, name))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path

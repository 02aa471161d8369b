"""Reads large dumps, plain, .gz or .zst (windows up to 2 GiB), in blocks of whole lines.

Unpacking takes longest, so it runs some blocks ahead in a thread that does little else, into a few buffers that are
reused: new ones would cost a tenth of the time. A line that is too long is skipped and reported; a frame that cannot be
unpacked ends the file, and the lines before it count.
"""

import gzip
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

_BLOCK = 1 << 20  # bytes; larger blocks do not fit into the caches and the heap
_AHEAD = 8  # blocks: on a busy machine each wait for the other thread loses time
_FEED = 64 << 10  # packed bytes per read: at most their content is lost with a broken frame
LONGEST = 16 << 20  # bytes of one line: a Reddit text has at most 40,000 characters
_TOO_LONG = memoryview(b"")  # stands for a line that is too long
_SPARE = 64 << 10  # free bytes at the start of a buffer, for a line that began earlier
_SEAL = b"whole " * 20  # packed it has other bytes, so a cut frame that absorbs it does not end with it
UNREADABLE = "unreadable from here on"
_NONE = np.empty(0, np.int64)
_Buffer = bytearray | bytes
_CORRUPT = {".zst": "corrupt zst frame: ", ".gz": "corrupt gzip file: "}


@dataclass
class Block:
    """Lines from number `first` on: line n of the block ends before data[ends[n]]; after the last end there is none.

    `data` is valid until the next block is requested, which reuses its buffer.
    """

    first: int
    data: memoryview = _TOO_LONG
    ends: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    faults: list[tuple[int, str, str]] = field(default_factory=list)  # (line, reason, detail)

    def lines(self, indexes: NDArray[np.int64]) -> list[bytes]:
        """The lines with these indexes in the block, without their ends."""
        ends, data = self.ends[indexes].tolist(), self.data
        starts = np.where(indexes > 0, self.ends[indexes - 1] + 1, 0).tolist()
        return [bytes(data[a:b]) for a, b in zip(starts, ends, strict=True)]


def blocks(path: Path) -> Iterator[Block]:
    """Yields every line once, in order. The last block says why the file could not be read to its end, if so."""
    number, broken = 1, list[str]()
    source = _chunks(path, broken)
    marks = np.empty(_SPARE + _BLOCK, np.bool_)
    with ThreadPoolExecutor(1) as ahead:
        futures = deque(ahead.submit(next, source, None) for _ in range(_AHEAD))
        while (chunk := futures.popleft().result()) is not None:
            futures.append(ahead.submit(next, source, None))
            if not chunk:
                yield Block(number, faults=[(number, "line too long", f"more than {LONGEST:,} bytes")])
                number += 1
                continue
            codes = np.frombuffer(chunk, np.uint8)
            scratch = marks[: codes.size] if codes.size <= marks.size else None
            ends = np.flatnonzero(np.equal(codes, ord("\n"), out=scratch))
            yield Block(number, chunk, ends)
            number += ends.size
    for detail in broken:
        yield Block(number, faults=[(number, UNREADABLE, detail)])


def odd_lines(block: Block) -> list[int]:
    """The indexes of the lines that cannot be JSON objects: they do not begin with {, or do not end with }."""
    if not block.ends.size:
        return []
    codes = np.frombuffer(block.data, np.uint8)
    ends = block.ends
    starts = np.concatenate([[0], ends[:-1] + 1])
    plausible = (codes[starts] == ord("{")) & (codes[ends - 1] == ord("}"))
    suspects = np.flatnonzero(~plausible & (ends > starts))  # empty lines are not odd
    lines = (line.removeprefix(b"\xef\xbb\xbf").strip() for line in block.lines(suspects))
    return [n for n, line in zip(suspects.tolist(), lines, strict=True) if line and line[:1] + line[-1:] != b"{}"]


def _chunks(path: Path, broken: list[str]) -> Iterator[memoryview]:
    """Yields about _BLOCK bytes of whole lines at a time, and _TOO_LONG for each line that is too long."""
    rest, skipping = b"", False
    buffers = deque(bytearray(_SPARE + _BLOCK) for _ in range(_AHEAD + 1))  # those ahead, and the current one
    for part, size in _parts(path, buffers, broken):
        buffer: _Buffer = part
        start = _SPARE - len(rest)
        if start >= 0:
            part[start:_SPARE] = rest
        else:
            buffer, start, size = rest + part[_SPARE:size], 0, size - start
        if skipping:  # inside a line that is too long
            end = buffer.find(b"\n", start, size)
            if end < 0:
                rest = bytes(buffer[max(start, size - len(_SEAL)) : size])
                continue
            yield _TOO_LONG
            start = end + 1
        end = max(start, buffer.rfind(b"\n", start, size) + 1)
        rest = bytes(buffer[end:size])
        skipping = len(rest) > LONGEST
        if skipping:
            rest = rest[-len(_SEAL) :]
        if end > start:
            buffers.rotate(-1)
            yield memoryview(buffer)[start:end]
    if path.suffix == ".zst" and not broken:
        if not rest.endswith(_SEAL):
            broken.append("corrupt zst frame: the file ends inside it")
        rest = rest.removesuffix(_SEAL)
    if skipping:
        yield _TOO_LONG
    elif rest:
        yield memoryview(rest + b"\n")


def _parts(path: Path, buffers: deque[bytearray], broken: list[str]) -> Iterator[tuple[bytearray, int]]:
    """Yields (buffers[0], size) again and again: buffers[0][_SPARE:size] are the next unpacked bytes of the file.

    The last bytes of a complete .zst are _SEAL. If the file cannot be read to its end, `broken` gets the reason.
    """
    try:
        with open(path, "rb") as file:
            source, is_full = _unpacked(path, file), True
            while is_full and not broken:
                part, size = buffers[0], _SPARE
                with memoryview(part) as view:
                    try:
                        while size < len(part) and (count := source.readinto1(view[size:])):
                            size += count
                    except (zstandard.ZstdError, EOFError, zlib.error) as fault:
                        broken.append(f"{_CORRUPT[path.suffix]}{fault}")
                is_full = size == len(part)
                yield part, size
    except OSError as fault:
        broken.append(f"{_CORRUPT.get(path.suffix, '')}{fault}")


def _unpacked(path: Path, file: BufferedReader) -> zstandard.ZstdDecompressionReader | BufferedIOBase:
    """Opens the file for unpacking. Adds our own frame with _SEAL to those of a .zst: without _SEAL, the last was cut.

    The reader itself does not tell whether the file ends with a frame or inside it.
    """
    if path.suffix != ".zst":
        return gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
    frame = zstandard.compress(_SEAL)
    seal = iter([frame[:1], frame[1:]])  # in one read it would be unpacked even after half the header of another frame
    sealed: Any = SimpleNamespace(read=lambda size: file.read(size) or next(seal, b""))
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
    return unpacker.stream_reader(sealed, read_size=_FEED, read_across_frames=True)

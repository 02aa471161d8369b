"""Reads large dumps, plain, .gz or .zst (windows up to 2 GiB), in blocks of whole lines.

Unpacking takes longest, so it runs some blocks ahead in a thread of its own that does little else, into a few buffers
that go round: fresh ones would cost a tenth of the time. A line that is too long is passed over and told; a frame that
cannot be unpacked ends the file, and what came before it counts.
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

_BLOCK = 1 << 20  # larger ones fall out of the caches and of the heap
_AHEAD = 8  # blocks: on a busy machine each wait for the other thread is a turn lost
_FEED = 64 << 10  # packed bytes at a time: at most what these hold is lost with a frame that breaks
LONGEST = 16 << 20  # bytes of one line: a Reddit text has at most 40,000 characters
_TOO_LONG = memoryview(b"")  # stands for a line that is too long
_SPARE = 64 << 10  # bytes left free before those that are read, for the line that began before them
_SEAL = b"whole " * 20  # packed it has not these bytes: a frame that was cut cannot take them in for its own
UNREADABLE = "unreadable from here on"
_NONE = np.empty(0, np.int64)
_Room = bytearray | bytes
_CORRUPT = {".zst": "corrupt zst frame: ", ".gz": "corrupt gzip file: "}


@dataclass
class Block:
    """Lines number `first` and on: line n of the block ends before data[ends[n]]; what comes after the last is none.

    `data` holds until the next block is asked for: then others are unpacked over it.
    """

    first: int
    data: memoryview = _TOO_LONG
    ends: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    faults: list[tuple[int, str, str]] = field(default_factory=list)  # (line, reason, detail)

    def lines(self, which: NDArray[np.int64]) -> list[bytes]:
        """The lines of these numbers, without their ends."""
        last, data = self.ends[which].tolist(), self.data
        first = np.where(which > 0, self.ends[which - 1] + 1, 0).tolist()
        return [bytes(data[a:b]) for a, b in zip(first, last, strict=True)]


def blocks(path: Path) -> Iterator[Block]:
    """Every line once, in order. The last block tells why the file could not be read to its end, if so."""
    number, broken = 1, list[str]()
    source = _chunks(path, broken)
    marks = np.empty(_SPARE + _BLOCK, np.bool_)
    with ThreadPoolExecutor(1) as ahead:
        coming = deque(ahead.submit(next, source, None) for _ in range(_AHEAD))
        while (chunk := coming.popleft().result()) is not None:
            coming.append(ahead.submit(next, source, None))
            if not chunk:
                yield Block(number, faults=[(number, "line too long", f"more than {LONGEST:,} bytes")])
                number += 1
                continue
            codes = np.frombuffer(chunk, np.uint8)
            room = marks[: codes.size] if codes.size <= marks.size else None
            ends = np.flatnonzero(np.equal(codes, ord("\n"), out=room))
            yield Block(number, chunk, ends)
            number += ends.size
    for detail in broken:
        yield Block(number, faults=[(number, UNREADABLE, detail)])


def odd_lines(block: Block) -> list[int]:
    """Numbers in the block of the lines that cannot be JSON objects: they do not begin with { or not end with }."""
    if not block.ends.size:
        return []
    codes = np.frombuffer(block.data, np.uint8)
    ends = block.ends
    starts = np.concatenate([[0], ends[:-1] + 1])
    fine = (codes[starts] == ord("{")) & (codes[ends - 1] == ord("}"))
    maybe = np.flatnonzero(~fine & (ends > starts))  # an empty line is none
    return [n for n, line in zip(maybe.tolist(), block.lines(maybe), strict=True) if not _is_object(line)]


def _is_object(line: bytes) -> bool:
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    return not line or (line.startswith(b"{") and line.endswith(b"}"))


def _chunks(path: Path, broken: list[str]) -> Iterator[memoryview]:
    """About _BLOCK bytes of whole lines at a time, and _TOO_LONG for a line that is."""
    rest, skipping = b"", False
    rooms = deque(bytearray(_SPARE + _BLOCK) for _ in range(_AHEAD + 1))  # those ahead, and the one being read
    for part, size in _parts(path, rooms, broken):
        room: _Room = part
        start = _SPARE - len(rest)
        if start >= 0:
            part[start:_SPARE] = rest
        else:
            room, start, size = rest + part[_SPARE:size], 0, size - start
        if skipping:  # inside a line that is too long
            at = room.find(b"\n", start, size)
            if at < 0:
                rest = bytes(room[max(start, size - len(_SEAL)) : size])
                continue
            yield _TOO_LONG
            start = at + 1
        at = max(start, room.rfind(b"\n", start, size) + 1)
        rest = bytes(room[at:size])
        skipping = len(rest) > LONGEST
        if skipping:
            rest = rest[-len(_SEAL) :]
        if at > start:
            rooms.rotate(-1)
            yield memoryview(room)[start:at]
    if path.suffix == ".zst" and not broken:
        if not rest.endswith(_SEAL):
            broken.append("corrupt zst frame: the file ends inside it")
        rest = rest.removesuffix(_SEAL)
    if skipping:
        yield _TOO_LONG
    elif rest:
        yield memoryview(rest + b"\n")


def _parts(path: Path, rooms: deque[bytearray], broken: list[str]) -> Iterator[tuple[bytearray, int]]:
    """(rooms[0], size), over and over: the next bytes of the file, unpacked, are rooms[0][_SPARE:size].

    The last of a whole .zst end with _SEAL. Where it cannot be read to its end, `broken` gets the reason.
    """
    try:
        with open(path, "rb") as file:
            source, more = _unpacked(path, file), True
            while more and not broken:
                part, size = rooms[0], _SPARE
                with memoryview(part) as room:
                    try:
                        while size < len(part) and (got := source.readinto1(room[size:])):
                            size += got
                    except (zstandard.ZstdError, EOFError, zlib.error) as fault:
                        broken.append(f"{_CORRUPT[path.suffix]}{fault}")
                more = size == len(part)
                yield part, size
    except OSError as fault:
        broken.append(f"{_CORRUPT.get(path.suffix, '')}{fault}")


def _unpacked(path: Path, file: BufferedReader) -> zstandard.ZstdDecompressionReader | BufferedIOBase:
    """What the file holds; behind the frames of a .zst _SEAL from one of our own: without it the last of them was cut.

    For the reader tells the end of a frame from the end of the file no better than that.
    """
    if path.suffix != ".zst":
        return gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
    frame = zstandard.compress(_SEAL)
    seal = iter([frame[:1], frame[1:]])  # at once it would be unpacked even behind half the header of another frame
    sealed: Any = SimpleNamespace(read=lambda size: file.read(size) or next(seal, b""))
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
    return unpacker.stream_reader(sealed, read_size=_FEED, read_across_frames=True)

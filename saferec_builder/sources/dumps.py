"""Blocks of whole lines out of a large dump, plain or .zst (windows up to 2 GiB), nearly as fast as it unpacks.

Unpacking takes longest, so it runs some blocks ahead in a thread of its own that does little else. A line that is too
long is passed over and told; a frame that cannot be unpacked ends the file, and what came before it counts.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20  # larger ones fall out of the caches and of the heap
_AHEAD = 8  # blocks: on a busy machine each wait for the other thread is a turn lost
_FEED = 16 << 10  # packed bytes at a time: bounds what a hostile frame can unpack to
LONGEST = 16 << 20  # bytes of one line: a Reddit text has at most 40,000 characters
_TOO_LONG = b""  # stands for a line that is too long
_NONE = np.empty(0, np.int64)


@dataclass
class Block:
    """Lines number `first` and on: line n of the block ends before data[ends[n]]; what comes after the last is none."""

    first: int
    data: bytes = b""
    ends: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    faults: list[tuple[int, str, str]] = field(default_factory=list)  # (line, reason, detail)

    def lines(self, which: NDArray[np.int64]) -> list[bytes]:
        """The lines of these numbers, without their ends."""
        last, data = self.ends[which].tolist(), self.data
        first = np.where(which > 0, self.ends[which - 1] + 1, 0).tolist()
        return [data[a:b] for a, b in zip(first, last, strict=True)]


def blocks(path: Path) -> Iterator[Block]:
    """Every line once, in order. The last block tells why the file could not be read to its end, if so."""
    number, broken = 1, list[str]()
    source = _chunks(path, broken)
    with ThreadPoolExecutor(1) as ahead:
        coming = deque(ahead.submit(next, source, None) for _ in range(_AHEAD))
        while (chunk := coming.popleft().result()) is not None:
            coming.append(ahead.submit(next, source, None))
            if not chunk:
                yield Block(number, faults=[(number, "line too long", f"more than {LONGEST:,} bytes")])
                number += 1
                continue
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            yield Block(number, chunk, ends)
            number += ends.size
    for detail in broken:
        yield Block(number, faults=[(number, "unreadable from here on", detail)])


def odd_lines(block: Block) -> list[int]:
    """Numbers in the block of the lines that cannot be JSON objects: they do not begin with { or not end with }."""
    if not block.ends.size:
        return []
    codes = np.frombuffer(block.data, np.uint8)
    ends = block.ends
    starts = np.concatenate([[0], ends[:-1] + 1])
    fine = (codes[starts] == ord("{")) & (codes[ends - 1] == ord("}")) & (ends > starts)
    maybe = np.flatnonzero(~fine)
    return [n for n, line in zip(maybe.tolist(), block.lines(maybe), strict=True) if not _is_object(line)]


def _is_object(line: bytes) -> bool:
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    return not line or (line.startswith(b"{") and line.endswith(b"}"))


def _chunks(path: Path, broken: list[str]) -> Iterator[bytes]:
    """About _BLOCK bytes of whole lines at a time, the start of the next behind them; _TOO_LONG for a line that is."""
    parts, size, skipping = [b""], 0, False
    for part in _parts(path, broken):
        if skipping:  # inside a line that is too long
            at = part.find(b"\n")
            if at < 0:
                continue
            yield _TOO_LONG
            part, skipping = part[at + 1 :], False
        parts.append(part)
        size += len(part)
        if size < _BLOCK:
            continue
        chunk = b"".join(parts)
        rest = chunk[chunk.rfind(b"\n") + 1 :]
        skipping = len(rest) > LONGEST
        parts, size = [b"" if skipping else rest], 0
        if len(rest) < len(chunk):
            yield chunk
    if skipping:
        yield _TOO_LONG
    if last := b"".join(parts):
        yield last if last.endswith(b"\n") else last + b"\n"


def _parts(path: Path, broken: list[str]) -> Iterator[bytes]:
    """The bytes of a file, unpacked; where it cannot be read to its end, `broken` gets the reason."""
    import zstandard

    try:
        with open(path, "rb") as file:
            if path.suffix == ".zst":
                yield from _unpacked(file)
            else:
                while part := file.read(_BLOCK // 4):
                    yield part
    except (OSError, zstandard.ZstdError) as fault:
        broken.append(f"{'corrupt zst frame: ' * (path.suffix == '.zst')}{fault}")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
    frame: Any = None
    while packed := file.read(_FEED):
        while packed:
            frame = frame or unpacker.decompressobj()
            yield frame.decompress(packed)
            packed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame:
        raise zstandard.ZstdError("the file ends inside it")

"""Computes a digest of a table's rows that does not depend on how the file was written, compressed or divided.

Each leaf of each column has its own streams: presence, lengths, bytes. The digest is the sha256 over the names and the
sha256 digests of the streams, so a table may be fed whole or in pieces.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class RowDigest:
    """The digest of tables of one schema: feed them with `add`, then call `hex`."""

    def __init__(self) -> None:
        self._streams: dict[str, hashlib._Hash] = {}
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        for name in table.column_names:
            for chunk in table.column(name).chunks:
                self._feed(name, chunk)

    def hex(self) -> str:
        digest = hashlib.sha256(f"{self._rows}".encode())
        for name in sorted(self._streams):
            digest.update(f"\n{name} {self._streams[name].hexdigest()}".encode())
        return digest.hexdigest()

    def _update(self, name: str, data: memoryview | bytes) -> None:
        self._streams.setdefault(name, hashlib.sha256()).update(data)

    def _feed(self, name: str, array: pa.Array) -> None:
        kind = array.type
        self._update(f"{name}?", _bytes(array.is_valid()))
        if pa.types.is_list(kind):
            self._update(f"{name}#", _bytes(pc.list_value_length(array).fill_null(0)))
            self._feed(f"{name}[]", array.flatten())
        elif pa.types.is_struct(kind):
            for field, child in zip(kind, array.flatten(), strict=True):
                self._feed(f"{name}.{field.name}", child)
        elif pa.types.is_string(kind):
            full = array.fill_null("")
            self._update(f"{name}#", _bytes(pc.binary_length(full)))
            self._update(name, _text(full))
        else:
            self._update(name, _bytes(array.fill_null(False if pa.types.is_boolean(kind) else 0)))


def _bytes(array: pa.Array) -> memoryview:
    values = array.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values.astype(np.uint8) if values.dtype == np.bool_ else values).data


def _text(array: pa.Array) -> memoryview | bytes:
    _, ends, data = array.buffers()
    if data is None or not len(array):
        return b""
    offsets = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]

"""Renders croissant.json: the machine-readable description of a dataset (ML Commons Croissant 1.1, RAI vocabulary).

Every file is a FileObject with its sha256, every config and split a RecordSet, so a loader can verify what it reads.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from exports import build_rows, canary, columns
from exports.manifest_types import Facts, FileEntry
from saferec_builder.core.errors import strict_json
from saferec_builder.core.json_value import JsonValue

TEXTS = tomllib.loads(Path(__file__).with_name("croissant.toml").read_text(encoding="utf-8"))
CONTEXT = Path(__file__).with_name("croissant_context.json")  # as the format requires it, verbatim


def render(manifest: Facts, files: Mapping[str, FileEntry], schemas: Mapping[str, pa.Schema]) -> bytes:
    """Returns the content of the file. files: the data files by path. schemas: the pyarrow schema of each config."""
    has_days = manifest["created"] and not (manifest["silent"] or manifest.get("put_back"))
    description = {
        "@context": strict_json(CONTEXT.read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest["name"],
        "description": TEXTS["about"] + (f" {canary.sentence(guid)}." if (guid := manifest["canary"]) else ""),
        "version": manifest["version"],
        **({"license": manifest["licence"]} if manifest["licence"] else {}),
        "creator": {"@type": "sc:Organization", "name": f"the makers of {manifest['name']}"},
        "url": manifest["url"],
        "citeAs": f"{manifest['name']} {manifest['version']}",
        "isLiveDataset": False,
        # up to the newest request; the day of publication is not known here
        **({"temporalCoverage": f"../{manifest['created']}"} if has_days else {}),
        **rai(manifest),
        "distribution": [_file(path, facts) for path, facts in files.items()],
        "recordSet": [_records(path, schemas[path.split("/")[1]]) for path in files],
    }
    return (json.dumps(description, ensure_ascii=False, indent=1) + "\n").encode()


def rai(manifest: Facts) -> dict[str, JsonValue]:
    """Returns the RAI fields, from the texts of croissant.toml."""
    makers, agreement = manifest["makers"], manifest["agreement"]
    alphas = [f"{trait} {facts['alpha']:.2f}" for trait, facts in agreement.items() if facts["alpha"] is not None]
    facts = {
        "sources": ", ".join(manifest["sources"]) or "none",
        "auto": TEXTS["only"]["auto"] if makers.get("auto") else "",
        "alphas": ", ".join(alphas) or "cannot be told",
        "people": "simulated reviewers (programs)" if manifest["simulated"] else "people who read whole conversations",
        **dict(zip(("left", "stays"), map(_counts, build_rows.apart(manifest["dropped"])), strict=True)),
        "split_rule": manifest["split_rule"],
        "unresolved": makers["unresolved"],
        "no_safety": TEXTS["only"]["no_safety"] if manifest["no_safety"] else "",
        "min_seekers": manifest["min_seekers"],
    }

    def filled(text: str | list[str]) -> JsonValue:
        return text.format(**facts) if isinstance(text, str) else [w for part in text if (w := part.format(**facts))]

    return {f"rai:{name}": filled(text) for name, text in TEXTS["rai"].items()}


def _counts(dropped: Mapping[str, int]) -> str:
    return "; ".join(f"{reason}: {n}" for reason, n in dropped.items()) or "nothing"


def _file(path: str, facts: FileEntry) -> dict[str, JsonValue]:
    return {
        **{"@type": "cr:FileObject", "@id": path, "name": path, "contentUrl": path},
        **{"contentSize": f"{facts['bytes']} B", "encodingFormat": "application/x-parquet", "sha256": facts["sha256"]},
    }


def _records(path: str, schema: pa.Schema) -> dict[str, JsonValue]:
    _, config, file = path.split("/")
    name = f"{config}-{file.removesuffix('.parquet')}"
    fields = [_field(name, path, column, columns.meaning(config, column.name)) for column in schema]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


def _field(records: str, path: str, column: pa.Field, meaning: str) -> dict[str, JsonValue]:
    """Returns one column; a column of structs has a sub-field per field, which is read by its JSON path."""
    kind, shape = column.type, list[str]()
    while pa.types.is_list(kind):
        kind, shape = kind.value_type, [*shape, "-1"]
    name = f"{records}/{column.name}"
    field: dict[str, JsonValue] = {"@type": "cr:Field", "@id": name, "name": name, "description": meaning}
    source = {"fileObject": {"@id": path}, "extract": {"column": column.name}}
    listed: dict[str, JsonValue] = {"isArray": True, "arrayShape": ",".join(shape)} if shape else {}
    if not pa.types.is_struct(kind):
        return field | {"dataType": _type(kind), "source": source} | listed
    return field | ({"repeated": True} if shape else {}) | {"subField": [_sub(name, source, part) for part in kind]}


def _sub(parent: str, source: Mapping[str, JsonValue], part: pa.Field) -> dict[str, JsonValue]:
    name = f"{parent}/{re.sub(r'[^A-Za-z0-9_]+', '_', part.name)}"  # an @id has no blanks
    quoted = part.name.replace("\\", "\\\\").replace("'", "\\'")
    read = {**source, "transform": {"jsonPath": f"$.'{quoted}'"}}
    return {"@type": "cr:Field", "@id": name, "name": name, "dataType": _type(part.type), "source": read}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"

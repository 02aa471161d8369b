"""Collects what a release rests on, and renders provenance.json: its sources, models, prompts, people, thresholds and
code (W3C PROV-JSON)."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from exports.manifest_types import Facts, Stamp
from saferec_builder.core.json_value import JsonValue


class Origins(NamedTuple):
    files: dict[str, int]  # source -> how many files, whose names may be of people or months; 0: of items, not counted
    proposals: list[tuple[str, str, str, int]]  # proposer, version, taxonomy, how many
    guidelines: list[str]
    tools: list[str]
    reviewers: int


def origins(
    proposals: pl.DataFrame, conversations: pl.DataFrame, catalog_rows: pl.DataFrame, reviews: pl.DataFrame
) -> Origins:
    """conversations: only released ones."""
    files = conversations.group_by("source").agg(pl.col("source_file").n_unique()).sort("source")
    others = catalog_rows["source"].unique().sort()
    made_by = ("proposer", "version", "taxonomy")
    return Origins(
        files=dict.fromkeys(others, 0) | dict(files.iter_rows()),
        proposals=proposals.group_by(made_by).len().sort(made_by).rows(),
        guidelines=reviews["guideline"].drop_nulls().unique().sort().to_list(),
        tools=reviews["tool"].unique().sort().to_list(),
        reviewers=reviews["reviewer"].n_unique(),
    )


def render(manifest: Facts, base: Origins, parent: Stamp | None) -> bytes:
    """Returns the content of the file. parent: the previous release."""
    release = f"release:{manifest['version']}"
    sources: dict[str, JsonValue] = {
        f"source:{source}": {"prov:type": "source", **manifest["licences"].get(source, {})}
        | ({"files": files} if files else {})
        for source, files in base.files.items()
    }
    prompts: dict[str, JsonValue] = {
        f"proposals:{who}:{version}:{taxonomy}": dict[str, JsonValue](
            {"prov:type": "proposals", "prompt or rules": version, "taxonomy": taxonomy, "count": count}
        )
        for who, version, taxonomy, count in base.proposals
    }
    guidelines: dict[str, JsonValue] = {f"guideline:{name}": {"prov:type": "guideline"} for name in base.guidelines}
    head: dict[str, JsonValue] = {"prov:type": "release", "name": manifest["name"], "rows": manifest["row_digests"]}
    entities: dict[str, JsonValue] = {
        release: head | {"canary": manifest["canary"]},
        "labels": {"prov:type": "labels", **manifest["makers"]},
        "taxonomy": {"prov:type": "taxonomy", "digest": manifest["taxonomy_digest"]},
        "rule": {"prov:type": "thresholds", **manifest["rule"]},
        **guidelines,
        **sources,
        **prompts,
    }
    derived = {}
    if parent:
        entities[f"release:{parent['version']}"] = {"prov:type": "release", "sha256 of SHA256SUMS": parent["sha256"]}
        derived = {"_:parent": {"prov:generatedEntity": release, "prov:usedEntity": f"release:{parent['version']}"}}
    document = {
        "prefix": {"prov": "http://www.w3.org/ns/prov#"},
        "entity": entities,
        "activity": {
            "review": {"tools": base.tools, "reviewers": base.reviewers, "simulated": manifest["simulated"]},
            "make": {"program": f"SafeRec Builder {manifest['code_version']}", "split rule": manifest["split_rule"]},
        },
        "agent": {f"model:{who}": {"prov:type": "prov:SoftwareAgent"} for who, *_ in base.proposals},
        "used": _used("make", [*sources, "labels", "taxonomy", "rule"]) | _used("review", [*prompts, *guidelines]),
        "wasGeneratedBy": {
            "_:made": {"prov:entity": release, "prov:activity": "make"},
            "_:judged": {"prov:entity": "labels", "prov:activity": "review"},
        },
        "wasAttributedTo": {
            f"_:by{n}": {"prov:entity": name, "prov:agent": f"model:{who}"}
            for n, (name, (who, *_)) in enumerate(zip(prompts, base.proposals, strict=True))
        },
        "wasDerivedFrom": derived,
    }
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def _used(activity: str, entities: Sequence[str]) -> dict[str, JsonValue]:
    return {f"_:{activity}{n}": {"prov:activity": activity, "prov:entity": item} for n, item in enumerate(entities)}

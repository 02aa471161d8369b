"""Renders provenance.json: the sources, models, prompts, people, thresholds and code of a release (W3C PROV-JSON)."""

import json
from collections.abc import Sequence

from exports.manifest_facts import Provenance
from exports.manifest_types import Facts, Stamp
from saferec_builder.core.json_value import JsonValue


def render(manifest: Facts, base: Provenance, parent: Stamp | None) -> bytes:
    """Returns the content of the file. parent: the previous release."""
    release = f"release:{manifest['version']}"
    sources: dict[str, JsonValue] = {
        f"source:{source}": {"prov:type": "source", **manifest["licences"].get(source, {}), "files": files}
        for source, files in base["files"].items()
    }
    models = {f"model:{p['proposer']}": {"prov:type": "prov:SoftwareAgent"} for p in base["proposals"]}
    prompts: dict[str, JsonValue] = {
        f"proposals:{p['proposer']}:{p['version']}": {
            "prov:type": "proposals",
            "prompt or rules": p["version"],
            "taxonomy": p["taxonomy"],
            "count": p["count"],
        }
        for p in base["proposals"]
    }
    entities: dict[str, JsonValue] = {
        release: {
            **{"prov:type": "release", "name": manifest["name"], "rows": manifest["row_digests"]},
            "canary": manifest.get("canary"),
        },
        "labels": {"prov:type": "labels", **manifest["makers"]},
        "taxonomy": {"prov:type": "taxonomy", "digest": manifest["taxonomy_digest"]},
        "rule": {"prov:type": "thresholds", **manifest["rule"]},
        **{f"guideline:{hash_}": {"prov:type": "guideline"} for hash_ in base["guidelines"]},
        **sources,
        **prompts,
    }
    if parent:
        entities[f"release:{parent['version']}"] = {"prov:type": "release", "sha256 of SHA256SUMS": parent["sha256"]}
    document = {
        "prefix": {"prov": "http://www.w3.org/ns/prov#"},
        "entity": entities,
        "activity": {
            "review": {"tools": base["tools"], "reviewers": base["reviewers"], "simulated": manifest["simulated"]},
            "make": {"program": f"SafeRec Builder {manifest['code_version']}", "split rule": manifest["split_rule"]},
        },
        "agent": models,
        "used": _pairs("prov:activity", "make", "prov:entity", [*sources, "labels", "taxonomy", "rule"])
        | _pairs("prov:activity", "review", "prov:entity", [*prompts, *(f"guideline:{g}" for g in base["guidelines"])]),
        "wasGeneratedBy": {
            "_:made": {"prov:entity": release, "prov:activity": "make"},
            "_:judged": {"prov:entity": "labels", "prov:activity": "review"},
        },
        "wasAttributedTo": {
            f"_:by{n}": {
                "prov:entity": f"proposals:{p['proposer']}:{p['version']}",
                "prov:agent": f"model:{p['proposer']}",
            }
            for n, p in enumerate(base["proposals"])
        },
        "wasDerivedFrom": (
            {"_:parent": {"prov:generatedEntity": release, "prov:usedEntity": f"release:{parent['version']}"}}
            if parent
            else {}
        ),
    }
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def _pairs(left: str, subject: str, right: str, objects: Sequence[str]) -> dict[str, JsonValue]:
    return {f"_:{subject}{n}": {left: subject, right: item} for n, item in enumerate(objects)}

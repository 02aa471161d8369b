"""Writes the README.md of a trained model: its data and their licence, what their labels miss, and its figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import line

NAME = "README.md"
_UNSAFE = "**It was trained without regard to safety, to compare others with it: do not let it answer people.**\n\n"
_INVENTED = "**Items or reviews of this data are invented: draw no conclusion about people or real items from it.**\n\n"


def text(card: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Returns the model card of a stage. card: its run.json, with `validation`; manifest: of the release."""
    data = line(f"{manifest['name']} {manifest['version']}")
    start = ", ".join(Path(parent).name if Path(parent).is_absolute() else parent for parent in card["from"])
    best = card["validation"]
    figures = {name: value for name, value in best.items() if name not in ("step", "score")}
    certificate = manifest.get("certificate") or {}
    facts = {
        "data": f"{data}, digest of its manifest.json: {card['release']['digest']}",
        "licence of the data": manifest.get("licence") or "not stated",
        "sensitivities that its labels miss": certificate.get("any") or "not known: nobody has reviewed it",
        "trained from": f"{start} (the licence of a pretrained model holds for these weights, too)",
        "settings and versions": "run.json",
    }
    rows = [f"| {name} | {line(str(value)).replace('|', '/')} |" for name, value in facts.items()]
    raw = bool(card["settings"].get("saferec", {}).get("rows") == "sft_raw")
    return (
        "---\nlibrary_name: transformers\ntags: [conversational-recommendation, saferec-builder]\n---\n"
        f"# {line(card['stage'])}, trained on {data}\n\n"
        + _UNSAFE * raw
        + _INVENTED * bool(manifest.get("demo") or manifest.get("simulated"))
        + "A recommender that answers a request with a list. What it recommends may still break a sensitivity.\n\n"
        + "\n".join(["| | |", "|---|---|", *rows])
        + f"\n\nOn the validation split, at step {best['step']}, which was chosen by these figures:\n\n"
        + "\n".join(["| figure | value |", "|---|---|", *(f"| `{n}` | {value:.3f} |" for n, value in figures.items())])
        + "\n\nThey are no measure of unseen requests: add those of `training.safecrs evaluate` on the test split.\n"
    )

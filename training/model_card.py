"""Writes the README.md of a trained model: its data and their licence, what their labels miss, its figures, and how to
ask it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import line

NAME = "README.md"
_UNSAFE = "**It was trained without regard to safety, to compare others with it: do not let it answer people.**\n\n"
_STUDENT = (
    "It learned lists of a filter (SafeRec Builder's guard): of the items that are clear for the sensitivities of a"
    " training request, by the labels, those that rank highest. It imitates that filter, and looks nothing up.\n\n"
)
_INVENTED = "**Items or reviews of this data are invented: draw no conclusion about people or real items from it.**\n\n"
_USE = """
With `pip install 'saferec-builder[train]'`, and this folder in the place of FOLDER:

```python
from training.decoding import generate
from training.decoding.validation_scores import answers

prompt = [{"role": "user", "content": "A thriller, please?"}]
request = {"conversation": "1", "prompt": prompt, "domain": None, "seen": []}
print(answers(generate.load("FOLDER"), [request]))  # ids of the release's items, or text if it has no item tokens
```
"""


def text(card: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Returns the model card of a stage. card: its run.json, with `validation`; manifest: of the release.

    Its metadata have a licence only if the weights were made from the release alone: that of a pretrained model, which
    nobody here knows, holds too."""
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
    learned: str | None = card["settings"].get("saferec", {}).get("rows")
    licence: str | None = None if card["pretrained"] else manifest.get("licence")
    return (
        "---\nlibrary_name: transformers\n"
        + (f"license: {json.dumps(line(licence), ensure_ascii=False)}\n" if licence else "")
        + "tags: [conversational-recommendation, saferec-builder]\n---\n"
        + f"# {line(card['stage'])}, trained on {data}\n\n"
        + _UNSAFE * (learned == "sft_raw")
        + _INVENTED * bool(manifest.get("demo") or manifest.get("simulated"))
        + "A recommender that answers a request with a list. What it recommends may still break a sensitivity.\n\n"
        + _STUDENT * (learned == "guard")
        + "\n".join(["| | |", "|---|---|", *rows])
        + f"\n\nOn the validation split, at step {best['step']}, which was chosen by these figures:\n\n"
        + "\n".join(["| figure | value |", "|---|---|", *(f"| `{n}` | {value:.3f} |" for n, value in figures.items())])
        + "\n\nThey are no measure of unseen requests: add those of `training.safecrs evaluate` on the test split.\n"
        + _USE
    )

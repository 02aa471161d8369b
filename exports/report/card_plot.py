"""Draws the plot of the card, plots.png, from the manifest alone: labels, agreement and unknown items per trait."""

import io
from collections.abc import Callable

from PIL import Image, ImageDraw, ImageFont

from exports.card import percent
from exports.manifest_types import Facts

PLOT = "plots.png"
KINDS = (("present", "#b0412e"), ("absent", "#6f93b3"), ("unresolved or unsure", "#c9c9c9"))
_INK, _LINE, _BAR = "#222222", "#dddddd", "#4d7a5c"
_ROW, _TOP, _NAME, _PANEL, _GAP = 22, 64, 170, 260, 130  # pixels

# title, trait -> shares with their colours, trait -> text beside them
Panel = tuple[str, Callable[[str], list[tuple[float, str]]], Callable[[str], str]]


def draw(manifest: Facts) -> bytes | None:
    """Returns the PNG; None if there is no trait to show."""
    traits = [slug for slug in manifest["traits"] if slug not in manifest["withheld"]]
    if not traits:
        return None
    panels = _panels(manifest, traits)
    size = (_NAME + len(panels) * (_PANEL + _GAP), _TOP + _ROW * len(traits) + 12)
    image = Image.new("RGB", size, "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(13)
    for row, slug in enumerate(traits):
        y = _TOP + row * _ROW
        pen.text((_NAME - 10, y + _ROW / 2), slug.replace("_", " "), _INK, font, anchor="rm")
        for number, (_, shares, words) in enumerate(panels):
            left = _NAME + number * (_PANEL + _GAP)
            pen.line((left, y + _ROW - 1, left + _PANEL, y + _ROW - 1), _LINE)
            end: float = left
            for share, colour in shares(slug):
                if share > 0:
                    pen.rectangle((end, y + 4, end + share * _PANEL, y + _ROW - 5), colour)
                end += share * _PANEL
            pen.text((end + 6, y + _ROW / 2), words(slug), _INK, font, anchor="lm")
    for number, (title, _, _) in enumerate(panels):
        pen.text((_NAME + number * (_PANEL + _GAP), 16), title, _INK, font, anchor="lm")
    x: float = _NAME
    for kind, colour in KINDS:
        pen.rectangle((x, 36, x + 10, 46), colour)
        pen.text((x + 16, 41), kind, _INK, font, anchor="lm")
        x += 34 + pen.textlength(kind, font)
    file = io.BytesIO()
    image.quantize(64).save(file, "PNG", optimize=True)
    return file.getvalue()


def _panels(manifest: Facts, traits: list[str]) -> list[Panel]:
    counts = {
        slug: (c["present"], c["absent"], c["unsure"] + c["unresolved"])
        for slug, c in ((slug, manifest["labels"][slug]) for slug in traits)
    }
    largest = max(max(sum(c) for c in counts.values()), 1)
    agreement = manifest["agreement"]
    alphas = {slug: agreement[slug]["alpha"] if slug in agreement else None for slug in traits}
    unknown = manifest["unknown"]
    return [
        (
            "labels: present of all",
            lambda slug: [(n / largest, colour) for n, (_, colour) in zip(counts[slug], KINDS, strict=True)],
            lambda slug: f"{counts[slug][0]:,} of {sum(counts[slug]):,}",
        ),
        (
            "Krippendorff's alpha",
            lambda slug: [(max(0.0, alphas[slug] or 0.0), _BAR)],
            lambda slug: "cannot be told" if alphas[slug] is None else f"{alphas[slug]:.2f}",
        ),
        ("items unknown", lambda slug: [(unknown[slug], "#8a8a8a")], lambda slug: percent(unknown[slug])),
    ]

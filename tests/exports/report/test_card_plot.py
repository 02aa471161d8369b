"""The card's plot: bars as long as their numbers, one row per trait."""

import io

from PIL import Image, ImageColor

from exports.manifest_types import Facts
from exports.report import card_plot

NONE = {"present": 0, "absent": 0, "unsure": 0, "unresolved": 0}
FACTS: Facts = {
    "traits": ["needles", "gore", "torture"],
    "withheld": ["torture"],
    "labels": {"gore": {"present": 4, "absent": 2, "unsure": 1, "unresolved": 1}, "needles": NONE | {"absent": 2}},
    "agreement": {"gore": {"alpha": 0.5, "units": 9}, "needles": {"alpha": -0.1, "units": 2}},
    "unknown": {"gore": 0.25, "needles": 1.0},
}
COLOURS = "#b0412e #6f93b3 #c9c9c9 #4d7a5c #8a8a8a #ffffff".split()
PRESENT, ABSENT, OPEN, ALPHA, UNKNOWN, WHITE = map(ImageColor.getrgb, COLOURS)


def test_bars_are_as_long_as_their_numbers() -> None:
    drawn = card_plot.draw(FACTS)
    assert drawn is not None and card_plot.draw(FACTS | {"withheld": FACTS["traits"]}) is None
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    assert image.size == (170 + 3 * 390, 64 + 2 * 22 + 12)
    # 8 labels of gore are 260 pixels; a bar begins 4 pixels below the top of its row, and has 14
    for row, bars in (
        (0, {170: ABSENT, 234: ABSENT, 236: WHITE, 560: WHITE, 950: UNKNOWN, 1209: UNKNOWN}),
        (1, {169: WHITE, 170: PRESENT, 299: PRESENT, 301: ABSENT, 364: ABSENT, 366: OPEN, 429: OPEN, 431: WHITE}),
        (1, {559: WHITE, 560: ALPHA, 689: ALPHA, 691: WHITE, 950: UNKNOWN, 1014: UNKNOWN, 1016: WHITE}),
    ):
        top = 64 + 22 * row
        for x, colour in bars.items():
            column = [image.getpixel((x, top + y)) for y in (3, 4, 17, 18)]
            assert column == [WHITE, colour, colour, WHITE], (row, x)
    lines = {image.getpixel((700, 64 + 22 * row + 21)) for row in (0, 1)}
    assert len(lines) == 1 and WHITE not in lines  # one below each row
    assert [image.getpixel((175, y)) for y in (35, 36, 46, 47)] == [WHITE, PRESENT, PRESENT, WHITE]  # the legend


def test_beside_a_bar_stands_how_many_are_present() -> None:
    (_, _, words), *_ = card_plot._panels(FACTS, ["gore", "needles"])
    assert (words("gore"), words("needles")) == ("4 of 8", "0 of 2")  # it was the 8 alone, most of them absent

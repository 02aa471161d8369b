"""`python -m tests.screenshots REPORT.html`: takes the pictures of the report page in docs/ with a real Chromium."""

import sys
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.worlds import chromium

DOCS = ROOT / "docs"
PHONE, DESK = 390, 1100  # pixels


def main(report: Path) -> None:
    with chromium.browser() as browser:

        def take(name: str, width: int, height: int, place: str = "", scheme: Any = "light") -> None:
            page: Any = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(report.resolve().as_uri())
            if place == "examples":
                page.locator("#examples .example button").first.click()
            if place:
                page.evaluate("place => document.getElementById(place).scrollIntoView({behavior: 'instant'})", place)
            page.screenshot(path=DOCS / name)
            page.close()

        take("report.png", DESK, 1500)
        take("report/phone.png", PHONE, 844, "models")
        take("report/dark.png", DESK, 760, "examples", "dark")
        take("report/missed.png", DESK, 1000, "missed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

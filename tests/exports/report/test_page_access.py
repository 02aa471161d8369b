"""The page works with a keyboard, without the pictures, and in dark mode."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exports.report import page
from exports.report.gather import gather
from saferec_builder.storage import workspace as store
from tests.worlds import chromium
from tests.worlds.report_world import results, run, world

STYLE = (Path(page.__file__).parent / "report_style.html").read_text(encoding="utf-8")


@pytest.fixture
def tab(workspace: store.Workspace, tmp_path: Path) -> Iterator[Any]:
    with chromium.browser() as browser:
        runs = page.read_runs(results(tmp_path / "runs", run("sft"), run("safe_sft"), chosen="safe_sft"))
        path = tmp_path / "report.html"
        path.write_text(page.render(gather(world(workspace)) | {"runs": [runs]}), encoding="utf-8")
        view = browser.new_page(viewport={"width": 390, "height": 844})
        view.goto(path.as_uri())
        yield view


@pytest.mark.slow
def test_everything_can_be_done_by_keyboard(tab: Any) -> None:
    press = tab.keyboard.press
    press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the report"
    focused = [""]
    while not focused[-1].startswith("BUTTON Show") and len(focused) <= 60:
        press("Tab")
        focused.append(tab.evaluate("(e => e.tagName + ' ' + e.textContent.trim())(document.activeElement)"))
    kinds = {element.split(" ")[0] for element in focused}
    assert kinds >= {"A", "SUMMARY", "BUTTON"} and focused[-1].startswith("BUTTON Show"), focused
    press("Enter")
    assert tab.locator(".example.open").count() == 1
    press("ArrowRight")  # the focus stays inside the examples
    assert tab.locator(".pager p").inner_text().split()[-3:] == ["2", "of", "10"]
    press("Shift+Tab")
    assert tab.evaluate("document.activeElement.closest('#examples') !== null")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


@pytest.mark.slow
def test_every_picture_is_told_in_words_or_hidden(tab: Any) -> None:
    undescribed = """[...document.querySelectorAll("svg")].filter(s => !(s.getAttribute("aria-hidden") === "true"
        || (s.getAttribute("role") === "img" && s.getAttribute("aria-label").length > 20))
        && !s.closest("[aria-hidden]")).map(s => s.outerHTML.slice(0, 80))"""
    assert tab.evaluate(undescribed) == []
    assert tab.locator("svg[role=img]").count() >= 4  # effort and the plane, wide and narrow
    unlabelled = "[...document.querySelectorAll('table')].filter(t => !t.caption && !t.closest('[aria-label]')).length"
    assert tab.evaluate(unlabelled) == 0


def colours(scheme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    return dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[{"light": 0, "dark": 1}[scheme]]))


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(scheme: str) -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    palette = colours(scheme)
    for ink, background in (
        *(("ink", surface) for surface in ("paper", "card", "faint", "accent-soft", "warn")),
        *(("soft", surface) for surface in ("paper", "card", "faint")),
        *(("accent", surface) for surface in ("paper", "card", "accent-soft")),
        ("mark-ink", "mark"),
        ("violated", "card"),
    ):
        assert contrast(palette[ink], palette[background]) >= 4.5, f"{ink} on {background}"

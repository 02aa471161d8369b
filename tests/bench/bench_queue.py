"""What sixty real conversations cost a reviewer in Label Studio and Argilla: key presses, clicks, pixels scrolled.

In real Chromium at 1,440 x 900 with a real server, by a script that does what a person has to do: scroll to the last
turn, scroll to what is clicked, press what has a key. Nothing is timed. BEFORE is what this script counted for the same
sixty conversations on the former page with one list of all traits (commit 720c2fe).
"""

import itertools
import statistics
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import saferec_builder as sr
from annotation.review_destinations import LabelStudio
from annotation.tools import label_studio, local_label_studio as managed, task_conversion
from saferec_builder.storage.workspace import Workspace
from tests.bench.figures import figure
from tests.servers import argilla_up
from tests.servers.fixtures import memory
from tests.worlds import chromium, review_queue, review_world
from tests.worlds.review_queue import COUNTS, Said

# kind -> actions, pixels; half of the single proposals are refused, which took one more action
BEFORE = {"none": (2.0, 1519.0), "one": (2.5, 1630.0), "two": (3.0, 1350.0), "ruling": (2.5, 1439.0)}
PEOPLE = {"ann": COUNTS["none"] + COUNTS["one"] + COUNTS["two"], "cy": COUNTS["ruling"]}
TURNS = '[class*="dialoguetext"]'
TEXT = f"[...document.querySelectorAll('{TURNS}')].map((node) => node.textContent).join('')"
METER = """
window.scrolled = 0;
const at = new Map();
window.restart = () => {
  window.scrolled = 0;
  for (const node of document.querySelectorAll('*')) if (node.scrollTop || at.has(node)) at.set(node, node.scrollTop);
};
document.addEventListener('scroll', (event) => {
  const node = event.target === document ? document.scrollingElement : event.target;
  window.scrolled += Math.abs(node.scrollTop - (at.get(node) ?? 0));
  at.set(node, node.scrollTop);
}, true);
"""
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
Counts = dict[str, list[tuple[int, float]]]  # kind -> (actions, pixels) of each conversation


class Hand:
    """A person's hand: it counts key presses and clicks."""

    def __init__(self, page: Any) -> None:
        self.page, self.actions = page, 0

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.actions += 1

    def reach(self, found: Any) -> None:
        found.evaluate("(node) => node.scrollIntoView({block: 'nearest'})")
        self.page.evaluate(SETTLED)


def main() -> None:
    if not managed.installed() or argilla_up.missing():
        sys.exit("Label Studio or Argilla is not installed: .venv/bin/python -m tests.servers.install")
    in_label_studio()
    in_argilla()


def in_argilla() -> None:
    from tests.bench import queue_in_argilla  # it uses the functions below

    with memory() as folder, closing(argilla_up.Argilla(folder)) as server:
        answers = review_queue.fill(Workspace.create(folder / "ws"))
        queue_in_argilla.main(Workspace.open(folder / "ws"), answers, server)


def in_label_studio() -> None:
    with memory() as folder:
        answers = review_queue.fill(Workspace.create(folder / "ws"))
        try:
            managed.up(folder / "ws" / "label-studio", print)
            actions, pixels = ratios(count(Workspace.open(folder / "ws"), answers), BEFORE)
        finally:
            managed.down(folder / "ws" / "label-studio")
    figure("queue.label_studio_actions_ratio", actions, "ratio", "<= 0.80")
    figure("queue.label_studio_scroll_ratio", pixels, "ratio", "<= 0.25")


def pages() -> Iterator[tuple[str, int, Any]]:
    """Yields for each person the number of their tasks, and a browser's page that counts."""
    with chromium.browser(chromium.OFFLINE) as browser:
        for name, tasks in PEOPLE.items():
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.set_default_timeout(180_000)
            context.add_init_script(METER)
            yield name, tasks, context.new_page()
            context.close()


def count(ws: Workspace, said: dict[str, Said]) -> Counts:
    sr.push(ws, ["ann", "bo"], to=LabelStudio(), everything=True)
    sr.push(ws, [], to=LabelStudio(), adjudicator="cy")
    server_folder, counts = ws.root / "label-studio", dict[str, list[tuple[int, float]]]()
    studio = review_world.LabelStudio(ws, server_folder, dict(managed.state(server_folder) or {}))
    for name, tasks, page in pages():
        studio.log_in(page, name)
        project = studio.project(name)
        assert project is not None
        page.goto(f"{studio.facts['url']}/projects/{project.id}/data?labeling=1")
        page.get_by_text("No quota is worth a bad night.").wait_for()  # the guidelines, once
        page.keyboard.press("Escape")
        before = ""
        for _ in range(tasks):
            before = one(page, said, counts, before)
    pulled = sr.pull(ws, LabelStudio())
    assert pulled.rejected.is_empty() and {kind: len(entries) for kind, entries in counts.items()} == COUNTS
    return counts


def one(page: Any, said: dict[str, Said], found: Counts, before: str) -> str:
    """Answers one conversation, from when it is drawn until it is submitted.
    Returns its text; `before` is the text of the previous conversation."""
    page.wait_for_function(f"(before) => ![before, ''].includes({TEXT})", arg=before)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)  # the page listens to keys only a moment after it is drawn
    text = page.evaluate(TEXT)
    page.evaluate("restart()")
    hand = Hand(page)
    hand.reach(page.locator(TURNS).last)
    answer(hand, said[text])
    pixels = page.evaluate("scrolled")
    with page.expect_response(lambda response: response.request.method == "POST" and "/annotations" in response.url):
        hand.press("Control+Enter")
    found.setdefault(said[text].kind, []).append((hand.actions, pixels))
    return str(text)


def answer(hand: Hand, said: Said) -> None:
    """Answers each card: its key stands beside the answer. Cards are in the order of the traits' slugs."""
    for n, trait in enumerate(sorted(said.verdicts)):
        hand.reach(hand.page.locator(".saferec-card").nth(n))
        verdicts = [verdict for _, verdict in task_conversion.CHOICES]
        hand.press(label_studio.KEYS[n][verdicts.index(said.verdicts[trait])])
        hand.page.locator(".saferec-card").nth(n).locator("input:checked").wait_for(state="attached")


def ratios(found: Counts, before: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """Actions and pixels of all conversations relative to those of `before`; prints the means of each kind."""
    for kind, entries in found.items():
        actions, pixels = (statistics.fmean(column) for column in zip(*entries, strict=True))
        print(f"{kind:<8} {len(entries):>3} conversations: {actions:.2f} actions, {pixels:.0f} pixels each")
    totals = [sum(column) for column in zip(*itertools.chain(*found.values()), strict=True)]
    before_totals = [sum(COUNTS[kind] * before[kind][n] for kind in COUNTS) for n in (0, 1)]
    return totals[0] / before_totals[0], totals[1] / before_totals[1]

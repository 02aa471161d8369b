"""What the sixty conversations of bench_queue cost a reviewer in Argilla: the same counts, with a real server.

BEFORE is what this counted for the same sixty on one page of checkboxes, where a task ended with a choice and Submit
(commit 9dbe8f6).
"""

import statistics
from typing import Any

import saferec_builder as sr
from annotation.review_destinations import Argilla
from saferec_builder.storage.workspace import Workspace
from tests.bench.bench_queue import SETTLED, Counts, Hand, pages, ratios
from tests.bench.figures import figure
from tests.servers.argilla_up import Argilla as Server
from tests.worlds import review_world
from tests.worlds.review_queue import COUNTS, Said

BEFORE = {"none": (2.0, 2160.0), "one": (2.5, 2268.0), "two": (3.0, 1886.0), "ruling": (2.5, 2030.0)}
FIELDS = ".text_field_component"  # the question, and the conversation
KEYS = {"present": "1", "absent": "2"}


def main(ws: Workspace, said: dict[str, Said], server: Server) -> None:
    place = Argilla(server.url, server.key)
    tool, counts, on_screen = review_world.Argilla(ws, server.url, server.key), Counts(), list[bool]()
    sr.push(ws, ["ann", "bo"], to=place, everything=True)
    sr.push(ws, [], to=place, adjudicator="cy")
    answers = {_bare(text): answer for text, answer in said.items()}
    for name, tasks, page in pages():
        tool.log_in(page, name)
        (project,) = tool.projects(name)
        page.goto(f"{server.url}/dataset/{project.id}/annotation-mode?page=1&status=pending")
        before = ""
        for _ in range(tasks):
            before = one(page, answers, counts, on_screen, before)
    pulled = sr.pull(ws, place)
    assert pulled.rejected.is_empty() and {kind: len(entries) for kind, entries in counts.items()} == COUNTS
    actions, pixels = ratios(counts, BEFORE)
    figure("queue.argilla_actions_ratio", actions, "ratio", "<= 0.70")
    figure("queue.argilla_scroll_ratio", pixels, "ratio", "of pixels")
    figure("queue.argilla_first_screen", statistics.fmean(on_screen), "of proposals", ">= 1 (name, quote and question)")


def one(page: Any, said: dict[str, Said], found: Counts, seen: list[bool], before: str) -> str:
    """Answers one conversation, from its drawing to its submission; gives its text. `before`: that of the last one."""
    text = f"[...document.querySelectorAll('{FIELDS}')].pop()?.innerText ?? ''"
    page.wait_for_function(f"(before) => ![before, ''].includes({text})", arg=before)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)
    visible = str(page.evaluate(text))
    bare = _bare(visible.partition("\n")[2])  # the names of the marks follow the text
    answer = next(answer for text, answer in said.items() if bare.startswith(text))
    page.evaluate("restart()")
    hand = Hand(page)
    height = page.viewport_size["height"]
    for n in range(1, 1 + len(answer.verdicts)):
        ends = [page.get_by_text(f"{n}. ").first.bounding_box(), page.get_by_text(f"Proposal {n}").first.bounding_box()]
        seen.append(all(box["y"] + box["height"] < height for box in ends))
    page.locator(FIELDS).last.evaluate("(node) => node.scrollIntoView({block: 'end'})")
    page.evaluate(SETTLED)
    for n, trait in enumerate(sorted(answer.verdicts), 1):
        hand.press(KEYS[answer.verdicts[trait]])
        page.locator(f"input[id^='verdict_{n}_']:checked").wait_for(state="attached")
    pixels = page.evaluate("scrolled")
    with page.expect_response(
        lambda reply: reply.request.method in ("POST", "PUT") and reply.url.endswith("/responses")
    ):
        hand.press("Enter")
    found.setdefault(answer.kind, []).append((hand.actions, pixels))
    return visible


def _bare(text: str) -> str:
    """The text without blanks and roles, which only Argilla's page shows in the text."""
    lines = (line.removeprefix("seeker: ").removeprefix("recommender: ") for line in text.split("\n"))
    return "".join("".join(lines).split())

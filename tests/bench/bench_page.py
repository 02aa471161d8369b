"""What sixty real conversations cost a reviewer on the page of `review serve`: key presses and pixels scrolled.

In real Chromium at 1,440 x 900, by a script that reads to the last turn and then presses the keys of the answers. The
queue is that of tests/worlds/review_queue.py: real texts, invented proposals. Timed are the way from the command to the
first task, and, in a queue of 10,000 tasks, storing an answer and replying with the next task.
"""

import itertools
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx2

import saferec_builder as sr
from saferec_builder.storage import tables, workspace as store
from tests.bench.figures import figure
from tests.servers.fixtures import memory
from tests.worlds import chromium, review_page, review_queue
from tests.worlds.settings import review_settings

GOALS = {"none": 1, "one": 2, "two": 3}  # actions per conversation; no goal for an adjudication
PEOPLE = ("ann", "cy")
LINE = [sys.executable, "-c", "from saferec_builder.cli.start import main; main()"]
MANY = 5_000  # conversations, two readers each
ANSWERS = 100
READ = """async () => {
  const pane = document.getElementById("talk"), before = pane.scrollTop;
  [...pane.querySelectorAll(".turn")].pop().scrollIntoView({block: "nearest"});
  return Math.abs(pane.scrollTop - before);
}"""
SCROLLED = "() => document.getElementById('talk').scrollTop + document.getElementById('work').scrollTop"


def main() -> None:
    with memory() as folder:
        actions(folder / "real")
        times(folder / "many")
        newcomer(folder / "new")


def actions(folder: Path) -> None:
    review_queue.fill(store.Workspace.create(folder))
    ws = store.Workspace.open(folder)
    counts: dict[str, list[tuple[int, float]]] = defaultdict(list)
    sr.push(ws, ["ann", "bo"], to=sr.ReviewPage(), everything=True)
    sr.push(ws, [], to=sr.ReviewPage(), adjudicator="cy")
    figure("queue.page_first_task_s", first(ws), "s", "<= 10")
    with review_page.opened(ws) as page, chromium.browser(chromium.OFFLINE) as browser:
        for name in PEOPLE:
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            tab.goto(page.link(name))
            tab.locator(".turn").first.wait_for()
            tab.wait_for_timeout(600)
            if tab.locator("#guidelines").is_visible():
                tab.keyboard.press("Enter")
            while tab.locator(".turn").count():
                one(tab, name, counts)
    for kind, entries in counts.items():
        presses, pixels = (statistics.fmean(column) for column in zip(*entries, strict=True))
        print(f"{kind:<8} {len(entries):>3} conversations: {presses:.2f} actions, {pixels:.0f} pixels each")
        if kind in GOALS:
            figure(f"queue.page_actions_{kind}", presses, "actions", f"<= {GOALS[kind]}")
    assert {kind: len(entries) for kind, entries in counts.items()} == review_queue.COUNTS


def one(tab: Any, name: str, found: dict[str, list[tuple[int, float]]]) -> None:
    """Answers one conversation, from the moment it is drawn until the next one is."""
    text = "".join(tab.locator(".turn p").all_text_contents())
    read, before = tab.evaluate(READ), tab.evaluate(SCROLLED)
    tab.wait_for_timeout(600)
    keys = ["y", "n"][: tab.locator(".card").count()]
    for key in keys:
        tab.keyboard.press(key)
    scrolled = abs(tab.evaluate(SCROLLED) - before)
    tab.keyboard.press("Enter")
    kind = "ruling" if name == "cy" else ("none", "one", "two")[len(keys)]
    found[kind].append((len(keys) + 1, read + scrolled))
    shown = "[...document.querySelectorAll('.turn p')].map((node) => node.textContent).join('')"
    tab.wait_for_function(f"(text) => {shown} !== text", arg=text)


def times(folder: Path) -> None:
    ws = store.Workspace.create(folder)
    words = "I am looking for film {}, and nothing with blood in it, please."
    rows = [
        {"conversation": f"c{n}", "digest": f"d{n}", "source": "messages", "source_id": f"c{n}"}
        | {"turns": [{"role": "seeker", "text": words.format(n), "items": []}] * 10}
        for n in range(MANY)
    ]
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    review_settings(folder, audit=0, held_back=0)
    ws = store.Workspace.open(folder)
    sr.push(ws, ["ann", "bo"], to=sr.ReviewPage(), everything=True)
    with review_page.opened(ws) as page:
        web, millis, busy = page.browser("ann"), list[float](), time.process_time()
        body = web.get("/tasks").json()
        for _ in range(ANSWERS):
            start = time.perf_counter()
            reply = web.post("/answer", json=review_page.given(body["task"]))
            millis.append(1000 * (time.perf_counter() - start))
            body = reply.json()
            assert reply.status_code == 200
        busy = time.process_time() - busy
    figure("queue.page_next_ms", statistics.median(millis), "ms", "<= 100 (median, 10,000 tasks)")
    figure("queue.page_next_cpu_ms", 1000 * busy / ANSWERS, "ms", "of processor, browser's side included")


def newcomer(folder: Path) -> None:
    """From `init` on the tutorial's sample to the first stored label: its commands, with the time when each ended."""
    inputs, ws = folder / "sample" / "input", folder / "ws"
    subprocess.run([*LINE, "demo", "--to", str(inputs.parent), "--inputs-only", "--generated", "300"], check=True)
    start, busy = time.perf_counter(), os.times()
    for args in (
        ["init", str(ws)],
        ["catalog", "add", "csv", str(inputs / "items.csv"), "-C", str(ws)],
        ["catalog", "add", "warnings", str(inputs / "warnings.csv"), "-C", str(ws)],
        ["mine", "messages", str(inputs / "conversations.jsonl"), "-C", str(ws)],
        ["propose", "-C", str(ws)],
        ["review", "push", "--tool", "page", "--reviewer", "ann", "--reviewer", "bo", "-C", str(ws)],
    ):
        subprocess.run([*LINE, *args], check=True, stdout=subprocess.DEVNULL)
        print(f"{time.perf_counter() - start:>6.1f} s  saferec-build {' '.join(args[:3])}")
    workspace = store.Workspace.open(ws)
    first(workspace, answer=True)
    assert store.read(workspace, tables.REVIEWS).height
    figure("queue.first_label_s", time.perf_counter() - start, "s", "<= 180 (from init, by script)")
    spent = [after - before for after, before in zip(os.times()[:4], busy[:4], strict=True)]
    figure("queue.first_label_cpu_s", sum(spent), "s", "of processor")


def first(ws: store.Workspace, answer: bool = False) -> float:
    """Seconds from `review serve` until a reviewer has the first task; the reviewer then answers it, if `answer`."""
    start = time.perf_counter()
    command = [*LINE, "review", "serve", "--port", "0", "-C", str(ws.root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = list(itertools.takewhile(lambda text: "is open at" not in text, process.stdout))
        address, _, token = lines[0].split()[-1].partition("/#")
        with httpx2.Client(base_url=address, headers={"Origin": address}, timeout=60) as web:
            web.post("/tasks", json={"token": token})
            task, seconds = web.get("/tasks").json()["task"], time.perf_counter() - start
            if answer:
                assert web.post("/answer", json=review_page.given(task, "absent")).status_code == 200
            return seconds
    finally:
        process.terminate()
        process.wait()

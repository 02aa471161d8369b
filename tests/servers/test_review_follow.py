"""`review pull --follow` on a real Label Studio: fifty answers reach the workspace while it runs; Ctrl-C ends it."""

import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.pushes import ALL
from tests.worlds.review_world import Verdict

TEXTS = review_world.TEXTS | {f"d{n}": f"Film number {n}, what is like it?" for n in range(21)}
pytestmark = pytest.mark.servers


def test_fifty_answers_arrive_while_it_runs(workspace, label_studio, cli, monkeypatch):
    """25 conversations, two readers, an answer every half second. The delays are printed and never asserted:
    docs/review-guide.md has the measurements."""
    monkeypatch.setattr(review_world, "TEXTS", TEXTS)
    review_world.fill(workspace)
    home, facts = label_studio
    (workspace.root / "label-studio").symlink_to(home)
    assert cli("review", "push", *ALL, "-C", workspace.root).code == 0
    tool, rng = review_world.LabelStudio(workspace, home, facts), random.Random(5)
    tasks = {
        reviewer: {review_world.subject_of(t["data"]["turns"][0]["text"]): t["id"] for t in tool._tasks(reviewer)}
        for reviewer in ("ann", "bo")
    }
    words = ["review", "pull", "--follow", "--json", "-C", str(workspace.root)]
    code = "from saferec_builder.cli.app import main; main()"
    sent, arrived, stop = dict[tuple[str, str], float](), dict[tuple[str, str], float](), threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            ended = store.read(workspace, tables.REVIEWS).filter(trait="*").select("reviewer", "subject")
            for key in ended.iter_rows():
                arrived.setdefault(key, time.monotonic())

    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            first = json.loads(run.stdout.readline())  # it is running
            watching = threading.Thread(target=watch)
            watching.start()
            for reviewer, subject in rng.sample([(reviewer, c) for reviewer in tasks for c in TEXTS], 50):
                body = {"result": tool.result(subject, Verdict()), "lead_time": 9.5}
                tool.post(reviewer, tasks[reviewer][subject], body)
                sent[reviewer, subject] = time.monotonic()
                time.sleep(rng.expovariate(2))
            while len(arrived) < 50 and time.monotonic() < max(sent.values()) + 60:
                time.sleep(0.1)
        finally:
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
            stop.set()
            watching.join()
    pulls = [json.loads(line) for line in out.splitlines()]
    assert (run.returncode, err, first["in"]) == (0, b"", 0)
    # an answer is a row `*`, and one more if a trait is asked: gore of c1, accidents of c2, each from two readers
    assert sum(pull["added"] for pull in pulls) == 54 and not any(pull["dropped"] for pull in pulls)
    assert arrived.keys() == sent.keys() and store.read(workspace, tables.REVIEWS).height == 54
    delays = sorted(arrived[key] - sent[key] for key in sent)
    print(f"from Submit to the workspace: median {statistics.median(delays):.1f} s, longest {delays[-1]:.1f} s")

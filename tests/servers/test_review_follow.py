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
    """25 conversations, two readers, an answer every half second. How long each took is printed, and never asserted:
    docs/review-guide.md has what was measured."""
    monkeypatch.setattr(review_world, "TEXTS", TEXTS)
    review_world.fill(workspace)
    home, facts = label_studio
    (workspace.root / "label-studio").symlink_to(home)
    assert cli("review", "push", *ALL, "-C", workspace.root).code == 0
    tool, rng = review_world.LabelStudio(workspace, home, facts), random.Random(5)
    tasks = {
        who: {review_world.subject_of(t["data"]["turns"][0]["text"]): t["id"] for t in tool._tasks(who)}
        for who in ("ann", "bo")
    }
    words = ["review", "pull", "--follow", "--json", "-C", str(workspace.root)]
    code = "from saferec_builder.cli.app import main; main()"
    given, came, over = dict[tuple[str, str], float](), dict[tuple[str, str], float](), threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for key in (
                store.read(workspace, tables.REVIEWS).filter(trait="*").select("reviewer", "subject").iter_rows()
            ):
                came.setdefault(key, time.monotonic())

    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            first = json.loads(run.stdout.readline())  # it is at work
            watching = threading.Thread(target=watch)
            watching.start()
            for who, subject in rng.sample([(who, c) for who in tasks for c in TEXTS], 50):
                tool.post(who, tasks[who][subject], {"result": tool.result(subject, Verdict()), "lead_time": 9.5})
                given[who, subject] = time.monotonic()
                time.sleep(rng.expovariate(2))
            while len(came) < 50 and time.monotonic() < max(given.values()) + 60:
                time.sleep(0.1)
        finally:
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
            over.set()
            watching.join()
    pulls = [json.loads(line) for line in out.splitlines()]
    assert (run.returncode, err, first["in"]) == (0, b"", 0)
    # an answer is `*`, and a row more where a trait is asked: gore of c1, accidents of c2, each by two
    assert sum(pull["added"] for pull in pulls) == 54 and not any(pull["dropped"] for pull in pulls)
    assert came.keys() == given.keys() and store.read(workspace, tables.REVIEWS).height == 54
    took = sorted(came[key] - given[key] for key in given)
    print(f"from Submit to the workspace: median {statistics.median(took):.1f} s, longest {took[-1]:.1f} s")

"""`review serve` as a process: killed around an answer it neither loses nor doubles it; Ctrl-C ends it quietly."""

import contextlib
import errno
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx2
import pytest

from annotation.page import links, serving
from annotation.push import push
from annotation.review_destinations import ReviewPage
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Injected
from tests.worlds import review_page, review_world
from tests.worlds.review_page import given

KILLS = 50 if os.environ.get("SAFEREC_SOAK") else 3


@contextlib.contextmanager
def server(ws: store.Workspace, port: int) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """The server as its owner starts it, and the lines that it prints until it is open; Ctrl-C ends it, unless it was
    killed before."""
    words = ["review", "serve", "--port", str(port), "-C", str(ws.root)]
    line = [sys.executable, "-c", "from saferec_builder.cli.start import main; main()", *words]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = list(itertools.takewhile(lambda text: "is open at" not in text, process.stdout))
        yield process, lines
        process.send_signal(signal.SIGINT)
    finally:
        _, err = process.communicate(timeout=60)
    assert process.returncode in (128 + signal.SIGINT, -signal.SIGKILL) and "Traceback" not in err, err


@pytest.mark.slow
def test_no_kill_loses_or_doubles_an_answer(workspace: store.Workspace, injected: Injected) -> None:
    films = review_page.films(workspace, KILLS)
    ws = store.Workspace.open(workspace.root)
    push(ws, ["ann", "bo"], to=ReviewPage(), everything=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, rng, body = f"http://127.0.0.1:{port}", random.Random(5), dict[str, object]()
    with httpx2.Client(base_url=address, headers={"Origin": address}, timeout=30) as web:
        for n in range(KILLS + 1):
            with server(ws, port) as (process, lines):
                if n:  # the page sends it until it learns what became of it
                    reply = web.post("/answer", json=body)
                    assert reply.status_code == 200 or "stored already" in reply.text
                else:  # the cookie is good for all servers to come
                    token = lines[0].strip().partition("#")[2]
                    assert web.post("/tasks", json={"token": token}).status_code == 200
                task, remaining = (web.get("/tasks").json()[name] for name in ("task", "left"))
                assert remaining == KILLS - n
                if task:
                    body = given(task)
                    timer = threading.Timer(rng.uniform(0, 0.12), process.kill)
                    timer.start()
                    with contextlib.suppress(httpx2.TransportError):
                        web.post("/answer", json=body)
                    timer.join()
    assert sorted(store.read(ws, tables.REVIEWS)["subject"]) == films
    injected("kills of the page around an answer", KILLS)


def refused(*where: object, **how: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.slow
def test_what_cannot_be_served_says_what_to_do(workspace: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReviewError, match="review push --tool page"):
        serving.serve(workspace)
    with monkeypatch.context() as patch, pytest.raises(UsageError, match="needs uvicorn: pip install 'saferec-builder"):
        patch.setattr(serving, "find_spec", lambda name: None if name == "uvicorn" else name)
        serving.serve(workspace)
    review_world.fill(workspace)
    with pytest.raises(UsageError, match="--url too"):
        serving.serve(workspace, host="0.0.0.0")
    for url in ("review.example.org", "https://review.example.org/path", "https://ann:word@review.example.org"):
        with pytest.raises(UsageError, match="only scheme, name and port") as raised:
            serving.serve(workspace, url=url)
        assert "ann:word" not in str(raised.value)
    with review_page.opened(store.Workspace.open(workspace.root), "ann", "bo") as page:
        for host, port in (("127.0.0.1", page.served.listening.getsockname()[1]), ("192.0.2.1", 0), ("::1", 0)):
            with pytest.raises(
                UsageError, match="another port .* with --port, or .* address of this machine .* --host"
            ):
                serving.serve(page.ws, host=host, port=port, url="http://127.0.0.1:1")
        monkeypatch.setattr(socket, "create_server", refused)  # as to somebody who is not root, below 1024
        with pytest.raises(UsageError, match="Permission denied: give another port"):
            serving.serve(page.ws, port=80)
        monkeypatch.undo()
        reopened = serving.serve(page.ws, port=0)  # whoever has a link keeps it
        reopened.listening.close()
    assert reopened.links == {} and reopened.people == {"ann": 2, "bo": 2}


def test_a_link_of_another_address_says_how_it_opens_this_one(workspace: store.Workspace) -> None:
    """The page had another port before: whoever `has a link` had one that opened nothing."""
    review_world.fill(workspace)
    ws = store.Workspace.open(workspace.root)
    with review_page.opened(ws, "ann") as page:
        assert page.served.way("ann") == page.link("ann")
        token = page.link("ann").partition("#")[2]
    with review_page.opened(ws, "ann") as page:
        assert f"has a link, which opens this page with {page.served.address} before its #" in page.served.way("ann")
        assert page.browser().post("/tasks", json={"token": token}).status_code == 200
    assert links.make(ws, ["ann"])["ann"].startswith(f"{page.served.address}/#")

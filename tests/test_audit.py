"""Tests that an audit reports what was looked at, or that nothing was: pip-audit's last line cannot be trusted."""

import json
from functools import partial
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests import audit
from tests.conftest import Patch, Printed
from tests.servers.loopback import Asked, Reply, serving


def test_what_was_skipped_is_no_clean_package(monkeypatch: Patch) -> None:
    """A package index without advisories skips packages, and pip-audit still ends with 0 unless it is strict."""

    def ask(pins: audit.Pins, *words: str) -> CompletedProcess[str]:
        known = json.dumps({"dependencies": [{"name": "jinja2", "vulns": [{"id": "X"}]}]})
        return CompletedProcess([], 1 if pins == audit.KNOWN else int("--strict" in words), known, "")

    monkeypatch.setattr(audit, "ask", ask)
    assert audit.main([]) == 1


def test_it_looks_at_everything_but_our_own_package() -> None:
    ours, studio = audit.installed(), audit.pinned(audit.LABEL_STUDIO)
    assert {"polars", "pip", "pip-audit", "typing-extensions"} <= set(ours) and "saferec-builder" not in ours
    assert studio["label-studio"] == "1.23.2" and len(studio) > 100
    assert all(version and "+" not in version for version in (ours | studio).values())


FAULTS = {"jinja2": ("2.11.2", "GHSA-known"), "polars": (None, "GHSA-ours")}  # name -> faulty version (None: any), id


def osv(knows: tuple[str, ...], request: Asked) -> Reply:
    """The answer of an OSV server that knows only these packages of FAULTS, or `fails`."""
    query = json.loads(request.body)
    name, version = query["package"]["name"], query["version"]
    faulty, advisory = FAULTS.get(name, ("", ""))
    answer: dict[str, Any] = {}
    if name in knows and faulty in (None, version):
        affected = [{"package": query["package"], "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]
        answer = {"vulns": [{"id": advisory, "aliases": [], "summary": "x", "affected": affected}]}
    return Reply(500 if "fails" in knows else 200, json.dumps(answer).encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knows", "code", "last"),
    [
        (("jinja2",), 0, "audit: nothing known"),
        (("jinja2", "polars"), 1, "audit: NOT CLEAN"),
        ((), 2, "knows no fault of {'jinja2': '2.11.2'}"),  # it answers, and knows nothing at all
        (("fails",), 2, "the advisory source did not answer"),
    ],
)
def test_the_real_tool_before_a_source(capsys: Printed, knows: tuple[str, ...], code: int, last: str) -> None:
    with serving(partial(osv, knows)) as url:
        assert audit.main(["-s", "osv", "--osv-url", f"{url}/"]) == code
    out = capsys.readouterr().out
    assert last in out.splitlines()[-1] and ("GHSA-ours" in out) == (code == 1)

"""Tests that an audit reports what was looked at, or that nothing was: pip-audit's last line cannot be trusted."""

import json
from functools import partial
from typing import Any

import pytest

from tests import audit
from tests.conftest import Patch, Printed
from tests.servers.loopback import Asked, Reply, serving

NONE_KNOWN = "No known vulnerabilities found"
# output of pip-audit 2.10.1: (exit code, stdout, last line of stderr)
NOT_FOUND = (  # a package index without advisories: everything was skipped, and reported as no vulnerability
    0,
    '{"dependencies": [{"name": "jinja2", "skip_reason": "Dependency not found on PyPI and could not be audited: jinja2'
    ' (2.11.2)"}], "fixes": []}',
    NONE_KNOWN,
)
NO_NETWORK = (1, "", "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.osv.dev', port=443): Max")
CLEAN = (0, '{"dependencies": [{"name": "jinja2", "version": "2.11.2", "vulns": []}]}', NONE_KNOWN)
PINS = {"jinja2": "2.11.2"}


def test_what_was_skipped_is_no_clean_package() -> None:
    result = audit.read(PINS, *NOT_FOUND)
    assert result.skipped == {"jinja2": "Dependency not found on PyPI and could not be audited: jinja2 (2.11.2)"}
    assert not result.advisories and audit.report("here", PINS, result) == 2
    assert audit.report("here", PINS, audit.read(PINS, *CLEAN)) == 0


def test_a_source_that_did_not_answer_is_named() -> None:
    result = audit.read(PINS, *NO_NETWORK)
    assert result.fault is not None and "api.osv.dev" in result.fault and audit.report("here", PINS, result) == 2


@pytest.mark.parametrize(
    ("code", "out"),
    [
        (0, "{}"),
        (0, "[]"),
        (0, '{"dependencies": [5]}'),
        (2, CLEAN[1]),
        (1, CLEAN[1]),  # a fault without a name
        (0, CLEAN[1].replace('"vulns": []', '"vulns": [{"id": "X"}]')),
    ],
)
def test_an_answer_that_cannot_be_is_no_answer(code: int, out: str) -> None:
    assert audit.read(PINS, code, out, "").fault


def test_every_package_must_come_back_under_its_version() -> None:
    other = audit.read({"jinja2": "3.0.0", "numpy": "1.0"}, *CLEAN)
    assert other.skipped == {"jinja2": "pip-audit looked at 2.11.2 instead", "numpy": "pip-audit does not name it"}
    assert audit.report("here", {}, audit.Found()) == 2  # an empty environment is not an audited one


def test_it_looks_at_everything_but_our_own_package() -> None:
    ours, studio = audit.installed(), audit.pinned(audit.LABEL_STUDIO)
    assert {"polars", "pip", "pip-audit", "typing-extensions"} <= set(ours) and "saferec-builder" not in ours
    assert studio["label-studio"] == "1.23.2" and len(studio) > 100
    assert all(version and "+" not in version for version in (ours | studio).values())


# ---- the real tool with a source on this machine

FAULTS = {  # name -> the version with the fault (None: any), its id, other ids, the version with the fix
    "jinja2": ("2.11.2", "GHSA-known", ["CVE-2020-28493"], "2.11.3"),
    "polars": (None, "GHSA-ours", [], None),
}


def osv(knows: tuple[str, ...], request: Asked) -> Reply:
    """The answer of an OSV server that knows only these packages of FAULTS, or `fails`."""
    query = json.loads(request.body)
    name, version = query["package"]["name"], query["version"]
    faulty, advisory, aliases, fix = FAULTS.get(name, ("", "", [], None))
    answer: dict[str, Any] = {}
    if name in knows and faulty in (None, version):
        events = [{"introduced": "0"}, *([{"fixed": fix}] if fix else [])]
        affected = [{"package": query["package"], "ranges": [{"type": "ECOSYSTEM", "events": events}]}]
        answer = {"vulns": [{"id": advisory, "aliases": aliases, "summary": "x", "affected": affected}]}
    return Reply(500 if "fails" in knows else 200, json.dumps(answer).encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knows", "code", "last"),
    [
        (("jinja2",), 0, "audit: nothing known"),
        (("jinja2", "polars"), 1, "audit: ADVISORIES"),
        ((), 2, "it knows no fault of jinja2 2.11.2: no advisory came"),  # it answers, and knows nothing at all
        (("fails",), 2, "the advisory source did not answer"),
    ],
)
def test_the_real_tool_before_a_source(capsys: Printed, knows: tuple[str, ...], code: int, last: str) -> None:
    with serving(partial(osv, knows)) as url:
        assert audit.main(["-s", "osv", "--osv-url", f"{url}/"]) == code
    out = capsys.readouterr().out
    assert last in out.splitlines()[-1]
    assert ("polars" in out) == (code == 1) and ("GHSA-ours, not mended yet" in out) == (code == 1)


@pytest.mark.slow
def test_the_real_tool_without_a_source(monkeypatch: Patch, capsys: Printed) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for service in ("pypi", "osv"):
        assert audit.main(["-s", service, "--timeout", "5"]) == 2
        assert "audit: NOT DONE: the advisory source did not answer: pip-audit ended with 1" in capsys.readouterr().out

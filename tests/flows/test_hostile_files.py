"""Every kind of file that a command reads, damaged in every way: no traceback, nothing lost in silence, within bounds.

`make soak` runs them all, 1,833; without it every 29th, in which each kind is.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from saferec_builder.mining.removals import REMOVED
from tests.conftest import Injected
from tests.worlds import hostile_files as files
from tests.worlds.guarded import MEMORY, Done, Guarded

EVERY = 1 if os.environ.get("SAFEREC_SOAK") else 29
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def faults(case: files.Case, done: Done) -> Iterator[str]:
    err, code = done["err"].strip(), done["code"]
    last = err.rpartition("\n")[2]
    if code not in (0, 1) or "Traceback" in err or done["peak"] > MEMORY >> 20:
        yield f"code {code}, {done['peak']} MiB, {done['seconds']:.0f} s: {last[-200:]}"
    elif CONTROLS.search(err) or (code == 1 and not re.match(r"error: .{10,2000}$", last)):
        yield f"no line for people: {err[-300:]!r}"
    if code == 0 and case.words[0] in ("verify", "rebuild") and case.kind.path.startswith(f"{files.RELEASE}/"):
        yield "taken for a release"
    if code == 0 and case.least:
        said = json.loads(done["out"])
        told = said["dropped"].get(REMOVED, 0) if case.kind is files.KINDS["removals"] else said["in"]
        if told < case.least or said["in"] != said["out"] + sum(said["dropped"].values()):
            yield f"{case.least} rows, of which it says {said}"


@pytest.mark.slow
def test_no_damage_ends_in_a_traceback_or_loses_a_row_in_silence(tmp_path: Path, injected: Injected) -> None:
    template, guard = files.template(tmp_path / "template"), Guarded()
    found, tried, before = list[str](), 0, ""
    for name, damage in files.made()[::EVERY]:
        if EVERY == 1 and name != before:  # threads of libraries stay, and each has a stack
            guard.end()
            guard, before = Guarded(), name
        shutil.rmtree(at := tmp_path / "case", ignore_errors=True)
        if case := files.prepared(at, template, name, damage):
            tried += 1
            found += [f"{case.name}: {fault}" for fault in faults(case, guard.run(at, case.words))]
            print(tried, case.name, found[-1:] if found and found[-1].startswith(case.name) else "", flush=True)
    guard.end()
    assert not found, "\n".join([f"{len(found)} of {tried}", *found])
    injected("hostile files", tried)

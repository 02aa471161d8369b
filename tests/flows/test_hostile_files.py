"""Every kind of file that a command reads, damaged in every way: no traceback, no silent loss, bounded resources.

`make soak` runs all 1,920 cases; without it every 29th runs, which covers each kind.
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
        counts = json.loads(done["out"])
        n_rows = counts["dropped"].get(REMOVED, 0) if case.kind is files.KINDS["removals"] else counts["in"]
        if n_rows < case.least or counts["in"] != counts["out"] + sum(counts["dropped"].values()):
            yield f"{case.least} rows, of which it says {counts}"


@pytest.mark.slow
def test_no_damage_ends_in_a_traceback_or_loses_a_row_in_silence(tmp_path: Path, injected: Injected) -> None:
    template, guard = files.template(tmp_path / "template"), Guarded()
    problems, tried, last_name = list[str](), 0, ""
    for name, damage in files.made()[::EVERY]:
        if EVERY == 1 and name != last_name:  # threads of libraries stay alive, and each takes a stack
            guard.end()
            guard, last_name = Guarded(), name
        shutil.rmtree(folder := tmp_path / "case", ignore_errors=True)
        if case := files.prepared(folder, template, name, damage):
            tried += 1
            problems += [f"{case.name}: {fault}" for fault in faults(case, guard.run(folder, case.words))]
            print(tried, case.name, [fault for fault in problems[-1:] if fault.startswith(case.name)], flush=True)
    guard.end()
    assert not problems, "\n".join([f"{len(problems)} of {tried}", *problems])
    injected("hostile files", tried)

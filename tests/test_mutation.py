"""Tests of the sample of faults that `python -m tests.mutation nearest` draws."""

import pytest

from tests import mutation


@pytest.mark.slow
def test_the_same_seed_draws_the_same_faults_and_each_changes_its_line(monkeypatch) -> None:
    paths = [path for path in mutation.files() if path.parent.name == "core"]
    monkeypatch.setattr(mutation, "files", lambda: paths)
    first, again, other = (list(mutation.draw(30, seed)) for seed in (1, 1, 2))
    assert first == again != other and len({(f.path, f.line) for f in first}) == 30
    for fault in first:
        lines = (mutation.ROOT / fault.path).read_text(encoding="utf-8").splitlines()
        assert fault.source.splitlines()[: fault.line - 1] == lines[: fault.line - 1]
        assert fault.source.splitlines()[fault.line - 1] != lines[fault.line - 1]


def test_every_kind_of_fault(tmp_path, monkeypatch) -> None:
    path = tmp_path / "one.py"
    path.write_text('def f(a: int = 1) -> bool:\n    if a < 2 and "ä" in a: g(a)\n    return not a\n')
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    changes = [(f.line, f.after) for faults in mutation.faults_by_line(path).values() for f in faults]
    assert sorted(changes) == [
        (1, "(2)"), (2, "('ä' not in a)"), (2, "(3)"), (2, "(a < 2 or 'ä' in a)"), (2, "(a <= 2)"),
        (2, "(not (a < 2 and 'ä' in a))"), (2, "..."), (3, "None"),
    ]  # fmt: skip

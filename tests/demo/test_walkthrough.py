"""The order of the demo's commands, and its checks before it makes anything."""

from pathlib import Path
from typing import Any

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.demo import people, walkthrough
from saferec_builder.storage.workspace import make


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that runs the demo in tmp_path/demo, where simulated people only write an empty file."""

    def answer(ws: Any, truth: Any, names: Any) -> dict[Path, int]:
        for path in (paths := [people.path_of(ws.root, name) for name in names]):
            path.parent.mkdir(exist_ok=True)
            path.touch()
        return dict.fromkeys(paths, 7)

    def run() -> tuple[list[str], list[str]]:
        commands: list[str] = []
        lines: list[str] = []

        def command(*words: object) -> None:
            commands.append(" ".join(Path(word).name if isinstance(word, Path) else str(word) for word in words))

        walkthrough.run(tmp_path / "demo", command, lines.append, generated=4, training=False)
        return commands, lines

    monkeypatch.setattr(people, "answer", answer)
    return run


def test_people_answer_between_a_push_and_a_pull(ran: Any) -> None:
    commands, lines = ran()
    review = [words.removeprefix("review ") for words in commands if words.startswith("review")]
    assert [words.split(" --reviewer")[0] for words in review] == [
        "push --tool files", "pull --tool files ann.csv bo.csv", "push --tool files", "pull --tool files cy.csv",
    ]  # fmt: skip
    assert commands[-4:] == ["adjudicate", "release 1.0.0", "publish 1.0.0 --to published", "report"]
    assert [line.split()[1:4] for line in lines] == [[name, "answers", "7"] for name in ("ann", "bo", "cy")]


def test_what_an_interrupted_run_left_unread_is_pulled_first(ran: Any) -> None:
    ran()
    commands = [words for words in ran()[0] if words.startswith("review")]
    assert commands[0] == "review pull --tool files ann.csv bo.csv cy.csv" and "push" in commands[1]


def test_a_workspace_of_yours_is_left_as_it_is(tmp_path: Path) -> None:
    make(tmp_path / "mine", demo=False)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="is a workspace, and no demo"):
        walkthrough.run(tmp_path / "mine", print, print, generated=4, training=False)
    assert sorted(tmp_path.rglob("*")) == files


def test_training_that_cannot_run_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(walkthrough, "find_spec", lambda name: None if name == "trl" else name)
    with pytest.raises(UsageError, match="training needs trl"):
        walkthrough.run(tmp_path / "demo", lambda *_: None, lambda _: None)
    assert not (tmp_path / "demo").exists()

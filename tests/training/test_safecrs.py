"""The command as a person types it: a run from release to report, a second run without training, one-line errors."""

import errno
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from threading import TIMEOUT_MAX, Event
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from saferec_builder.core import progress
from saferec_builder.core.errors import TrainingError
from tests import ROOT
from tests.worlds import chat_model, small_release
from training import commands, data, run_folders, safecrs
from training.evaluation.baselines import NAMES
from training.run_folders import Run

pytestmark = pytest.mark.training
MODELS = ("sft", "safe_sft", "safe_gdpo", "student")
SHORT = ("both.max_steps=2", "both.warmup_steps=0", "gdpo.max_steps=1", "gdpo.per_device_train_batch_size=8")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def command(*words: object) -> Done:
    """Runs a command in this process, which has loaded torch already."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = safecrs.main([*map(str, words)])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command of this process takes so long that it says that it is at work, however busy the machine."""
    monkeypatch.setattr(progress, "PATIENCE", TIMEOUT_MAX)


def faults(stderr: str) -> list[str]:
    """The lines but those of a command or stage that is at work: on a busy machine all of them take long."""
    return [line for line in stderr.splitlines() if ": at work for " not in line]


def answers_of(release: data.Release, *names: str) -> Path:
    """Writes a predictions file with an empty answer to each of these requests."""
    return small_release.predictions(release.folder.parent / "mine.jsonl", **dict.fromkeys(names, ""))


def test_a_command_says_that_it_is_at_work_before_its_first_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run was silent while it loaded libraries, and while it waited for its second process."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    lines, said = list[str](), Event()
    monkeypatch.setattr(run_folders, "tell", lambda line: (lines.append(line), said.set()))
    monkeypatch.setitem(commands.VERBS, "memory", lambda args: said.wait(60))
    assert command("memory", "--config", "tiny").returncode == 0 and lines[0] == "memory: at work for 1 s"


def test_who_stops_reading_loses_nothing(release, tmp_path: Path) -> None:
    """`evaluate ... | true` used to end in a traceback before report.json was written."""
    reads, pipe = os.pipe()
    os.close(reads)
    answers_of(release, "u7", "u8")
    words = "-m training.safecrs evaluate --predictions mine.jsonl --release release --output out".split()
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, *words], stdout=pipe, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=env
    )
    os.close(pipe)
    assert (process.returncode, faults(process.stderr)) == (141, [])
    assert {file.name for file in (tmp_path / "out").iterdir()} >= {"report.json", "users.jsonl"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run")
    small_release.write(root / "release")
    gold = [{"conversation": "u7", "traits": ["gore"]}, {"item": "Item D (2004)", "violated": ["gore"]}]
    (root / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    return root


def whole(folder: Path, output: str) -> list[str]:
    """The words of a whole run, with its models in folder/`output`."""
    changes = [word for change in SHORT for word in ("--set", change)]
    fixed = ("--release", folder / "release", "--model", "tiny", "--gold", folder / "gold.jsonl")
    return ["run", *map(str, fixed), "--output", str(folder / output), *changes]


@pytest.fixture(scope="module")
def alone(folder: Path) -> Done:
    run = command(*whole(folder, "runs"))
    assert run.returncode == 0, run.stderr
    return run


def test_a_run_reports_its_models_and_baselines_and_a_second_trains_nothing(folder: Path, alone) -> None:
    report = json.loads((folder / "runs" / "report.json").read_text())
    assert [run["name"] for run in report["runs"]] == [*MODELS, "blind", "guard", "oracle_filter", *NAMES]
    metrics = report["runs"][0]["metrics"]
    expected = {"recall@4", "ndcg@4", "svr@4", "svr_upper@4", "svr_true@4", "duplicate@4", "length"}
    assert expected <= set(metrics) and set(metrics["svr@4"]) >= {"mean", "low", "high"}
    assert report["chosen"] in MODELS[1:] and report["gold"] is True
    predicted_traits = [json.loads((folder / "runs" / name / "items.json").read_text())["said"] for name in MODELS]
    assert predicted_traits == [0, 2, 2, 2]  # sft.yaml and student.yaml: says
    # the masks work: four distinct items, none of them seen
    assert metrics["length"]["mean"] == 4 and metrics["duplicate@4"]["mean"] == metrics["seen@4"]["mean"] == 0
    second = command(*whole(folder, "runs"))
    assert second.stdout.count("finished before") == 5, second.stdout
    assert json.loads((folder / "runs" / "report.json").read_text())["runs"] == report["runs"]


def test_two_processes_find_what_one_finds_and_say_it_in_the_same_order(folder: Path, alone) -> None:
    arguments = [sys.executable, "-m", "training.safecrs", *whole(folder, "two"), "--processes", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    two = subprocess.run(arguments, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT)
    assert (two.returncode, faults(two.stderr)) == (0, [])
    reports = [json.loads((folder / name / "report.json").read_text()) for name in ("runs", "two")]
    assert all(reports[0][part] == reports[1][part] for part in ("runs", "chosen", "prevalence"))
    cards = [json.loads((folder / name / "run.json").read_text()) for name in ("runs", "two")]
    assert [(n, c["key"]) for n, c in cards[0].items()] == [(n, c["key"]) for n, c in cards[1].items()]
    lines = two.stdout.splitlines()
    places = [lines.index(f"{stage}:") for stage in ("start", *MODELS)]
    steps = [line for place in places[1:] for line in lines[place + 1 : place + 3]]
    assert places == [0, 1, 5, 9, 13] and all(line.startswith("  step ") for line in steps)
    kept = [f"  kept: the model of step {cards[0][name]['validation']['step']}, the highest score" for name in MODELS]
    assert [lines[place + 3] for place in places[1:]] == kept
    assert two.stdout.split("at k = 4")[1] == alone.stdout.split("at k = 4")[1]


def test_answers_of_a_run_score_the_same_from_their_file(folder: Path, alone) -> None:
    answers = folder / "runs" / "safe_sft" / "answers-test.jsonl"
    fixed = ("--release", folder / "release", "--gold", folder / "gold.jsonl")
    process = command("evaluate", *fixed, "--predictions", answers, "--output", folder / "again")
    assert process.returncode == 0, process.stderr
    metrics = {r["name"]: r["metrics"] for r in json.loads((folder / "runs" / "report.json").read_text())["runs"]}
    after = json.loads((folder / "again" / "report.json").read_text())["runs"][0]["metrics"]
    assert after == metrics["safe_sft"]


FAULTS = [  # (arguments, what the error message names)
    ("--set both.no_such_argument=1", "no_such_argument"),
    ("--gold nowhere.jsonl", "cannot be read"),
    ("--set gdpo.no_such_argument=1", "no_such_argument"),
    ("--set both.num_train_epochs=-1", "num_train_epochs = -1: expected more than 0"),
    ("--set gdpo.num_generations=1", "trl.GRPOConfig: "),
    ("--set gdpo.saferec.mode=gdop", "gdop"),
    # the unsafe model would be a safe one, and no comparison would be possible
    ("--config sft", "sft: sft_raw would learn the rows sft: "),
    ("--set sft.max_steps=9", "have different max_steps"),
    # 4 rows do not fill a step of 5 prompts: GDPO made no step, and the model before it was called safe_gdpo
    ("--set gdpo.per_device_train_batch_size=40", "takes 5 prompts (40 answers), and the release has 4"),
    (f"--gold OTHER --set {SHORT[-1]}", "names none of these conversations"),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--release nowhere --model tiny", "no manifest.json"),
        *((f"--release RELEASE --model tiny {words}", expected) for words, expected in FAULTS),
    ],
)
def test_a_mistake_is_one_line(folder: Path, tmp_path: Path, capsys, words: str, expected: str) -> None:
    (tmp_path / "other.jsonl").write_text('{"conversation": "of another release", "traits": ["gore"]}\n')
    files = {"RELEASE": folder / "release", "OTHER": tmp_path / "other.jsonl"}
    arguments = ["run", *(str(files.get(word, word)) for word in words.split()), "--output", str(tmp_path / "out")]
    assert safecrs.main(arguments) == 1
    message = capsys.readouterr().err
    assert expected in message and len([line for line in message.splitlines() if line.startswith("error: ")]) == 1
    assert not (tmp_path / "out").exists()  # even an error of the last of three stages comes before the first stage


def test_a_split_without_rows_is_said(release, tmp_path: Path) -> None:
    table = pq.read_table(release.folder / "data" / "grpo" / "test.parquet")
    small_release.rewrite(release.folder, "grpo/test.parquet", table.slice(0, 0))
    with pytest.raises(TrainingError, match="grpo/test has no rows"):
        Run(release, tmp_path / "out").rows("grpo", "test")


def test_a_wrong_argument_leaves_the_model_that_was_there(folder: Path, alone) -> None:
    fixed = ("--release", folder / "release", "--model", folder / "runs" / "start")
    process = command("sft", *fixed, "--output", folder / "runs" / "safe_sft", "--set", "no_such_argument=1")
    assert process.returncode == 1 and "no_such_argument" in process.stderr
    assert (folder / "runs" / "safe_sft" / "model.safetensors").is_file()


def test_a_run_clears_nothing_where_a_later_stage_holds_the_model_that_it_starts_from(folder: Path, alone) -> None:
    fixed = ("--release", folder / "release", "--model", folder / "runs" / "safe_sft", "--set", SHORT[-1])
    process = command("run", *fixed, "--output", folder / "runs")
    assert process.returncode == 1 and "safe_sft: holds the model to start from" in process.stderr
    assert (folder / "runs" / "sft" / "model.safetensors").is_file()  # it used to be cleared and trained again


def evaluated(release: data.Release, *words: object) -> int:
    """Returns the exit code of `evaluate` with these words."""
    return safecrs.main(["evaluate", "--release", str(release.folder), *map(str, words)])


@pytest.mark.parametrize("words", [("--items", "trie"), ("--set", "k=3"), ("--config", "sft_raw")])
def test_settings_of_a_model_are_not_passed_over_where_answers_are_given(release, tmp_path, words, capsys) -> None:
    answers = answers_of(release, "u7", "u8")
    assert evaluated(release, "--predictions", answers, "--output", tmp_path / "judged", *words) == 1
    assert "about a --model here: leave them out (k is that of the release)" in capsys.readouterr().err


def test_no_room_for_a_list_is_said_before_anything_is_trained(folder: Path, tmp_path: Path) -> None:
    model = chat_model.write(tmp_path / "words", ["I faint at blood. Something like Item A (2001)?"])
    fixed = ("--release", folder / "release", "--model", model, "--set", SHORT[-1])
    process = command("run", *fixed, "--output", tmp_path / "out")
    assert process.returncode == 1 and "max_completion_length=256" in process.stderr
    assert not (tmp_path / "out").exists()


def test_a_misspelt_argument_of_trl_is_found_in_its_file(folder: Path, tmp_path: Path) -> None:
    (own := tmp_path / "own.yaml").write_text("extends: sft\nlearnin_rate: 1e-4\n")
    words = ("sft", "--release", folder / "release", "--model", "tiny", "--output", tmp_path / "out")
    fault = "argument 'learnin_rate' is not one of trl.SFTConfig: did you mean learning_rate?\n"
    assert command(*words, "--config", own).stderr == f"error: {own}: {fault}"
    assert command(*words, "--set", "learnin_rate=1e-4").stderr == f"error: {fault}"


def test_help_needs_no_torch() -> None:
    code = "import sys, runpy; sys.argv = ['x', '--help']; sys.modules['torch'] = sys.modules['trl'] = None\n"
    code += "runpy.run_module('training.safecrs', run_name='__main__')"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert process.returncode == 0 and "evaluate" in process.stdout


def test_a_seed_that_no_generator_takes_is_said_and_each_predictions_option_adds_its_files(capsys) -> None:
    words = "evaluate --release r --output o --predictions a b --predictions c --seed".split()
    for word in ("-1", "4294967296", "x"):
        with pytest.raises(SystemExit):
            safecrs.parser().parse_args([*words, word])
        assert "argument --seed" in capsys.readouterr().err
    args = safecrs.parser().parse_args([*words, "7"])
    assert (args.seed, args.predictions) == (7, ["a", "b", "c"])


def test_a_machine_that_refuses_is_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    def exit_code(fault: BaseException) -> int:
        def verb(_: Any) -> None:
            raise fault

        monkeypatch.setitem(commands.VERBS, "sft", verb)
        return safecrs.main(["sft", "--release", str(tmp_path), "--output", "o", "--model", "tiny"])

    monkeypatch.setattr(safecrs, "quiet", lambda *_: None)
    assert exit_code(PermissionError(errno.EACCES, "Permission denied", "/root/runs")) == 1
    assert exit_code(OSError(errno.ENOSPC, "No space left on device", "runs/sft/run.json")) == 1
    messages = capsys.readouterr().err.splitlines()
    assert messages[0].startswith("error: /root/runs: Permission denied: let yourself write there")
    assert "make room" in messages[1]
    assert exit_code(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err.startswith("stopped: the same command starts again, or goes on from its last check")
    with pytest.raises(FileNotFoundError):  # a bug keeps its traceback
        exit_code(FileNotFoundError(errno.ENOENT, "No such file", "x"))


def test_an_output_that_is_a_file_is_one_line(release, capsys) -> None:
    answers = answers_of(release, "u7", "u8")
    for output in (answers, answers / "below"):
        assert evaluated(release, "--predictions", answers, "--output", output) == 1
        assert capsys.readouterr().err.endswith("name another folder\n")


def test_requests_that_are_looked_at_alone_are_of_the_release(release, tmp_path: Path, capsys) -> None:
    fixed = ("--output", tmp_path / "out", "--predictions", answers_of(release, "u7"))
    (chosen := tmp_path / "only.jsonl").write_text('{"id": "u9"}\n')
    assert evaluated(release, *fixed, "--only", chosen) == 1
    assert "nothing to judge in the requests of test that were asked for" in capsys.readouterr().err
    chosen.write_text('{"id": "u7"}\n')  # u8 has no answer, and needs none
    assert evaluated(release, *fixed, "--only", chosen) == 0
    assert evaluated(release, *fixed[:2], "--model", "tiny", "--only", chosen) == 1
    assert "--only is about --predictions" in capsys.readouterr().err


def test_no_escape_sequence_of_a_file_reaches_the_terminal(release, tmp_path: Path, capsys) -> None:
    path = tmp_path / "\x1b]0;owned\x07.jsonl"
    fixed = ("--output", tmp_path / "out", "--predictions", path)
    for names, code in ((("u7",), 1), (("u7", "u8"), 0)):  # first without an answer to u8
        answers_of(release, *names).rename(path)
        assert evaluated(release, *fixed) == code
    assert evaluated(release, *fixed, "--release", tmp_path / "\x1b[2J\nerror: none") == 1
    printed = capsys.readouterr()
    assert "\ufffd" in printed.out and "\ufffd" in printed.err and "\x1b" not in printed.out + printed.err
    assert sum(line.startswith("error: ") for line in printed.err.split("\n")) == 2  # two refusals

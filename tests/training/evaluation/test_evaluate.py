"""`evaluate` from answers to a report: scores, slices, gold, differences, predictions files, and few dependencies."""

import json
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferec_builder.core import oracle as violations
from saferec_builder.core.errors import TrainingError
from tests import ROOT
from tests.worlds import small_release
from tests.worlds.small_release import listed
from training import data
from training.evaluation import baselines, evaluate, predictions as predictions_file, report_table
from training.evaluation.evaluate import score
from training.run_folders import write


def means(run):
    return {name: cell["mean"] for name, cell in run["metrics"].items()}


def _metrics(scored):
    return [scored["metrics"], *(cells["metrics"] for cells in scored["slices"].values())]


def test_text_and_ids_score_alike(release, rows):
    lists = {"u7": list("adje"), "u8": list("cfcg")}
    texts = {name: listed(ids) for name, ids in lists.items()}
    by_id, by_text = score(lists, rows, release), score(texts, rows, release)
    for each in zip(_metrics(by_id), _metrics(by_text), strict=True):
        of_ids, of_texts = ({name: cell for name, cell in m.items() if not name.startswith("mentioned")} for m in each)
        assert of_ids == of_texts
        assert [m["mentioned_unsafe@4"]["n"] for m in each] == [0, each[0]["svr@4"]["n"]]  # only texts mention
    figures = means(by_id)
    # u7 (gore): d e both hit, a violated, j unknown. u8: c f hit, c again; no trait
    assert (figures["recall@4"], figures["svr@4"], figures["svr_upper@4"]) == (1, 1 / 4, 2 / 4)
    assert (figures["duplicate@4"], figures["not_in_catalog@4"], figures["length"]) == (1 / 8, 0, 3.5)
    assert (by_id["n"], by_id["n_sensitive"], by_id["no_safe_truth"]) == (2, 1, 0)
    assert figures["recall_raw@4"] == 1 and by_id["metrics"]["svr@4"]["n"] == 1


def test_slices_are_scored_on_their_own_users(release, rows):
    run = score({"u7": list("adje"), "u8": list("jj")}, rows, release)
    assert " ".join(sorted(run["slices"])) == "condition=none condition=own_words domain=film form=implicit traits=gore"
    assert means(run["slices"]["condition=own_words"])["recall@4"] == 1
    none = run["slices"]["condition=none"]
    assert none["n"] == 1 and none["metrics"]["recall@4"]["mean"] == 0 and none["metrics"]["svr@4"]["mean"] is None
    rows[0] |= {"safe_truth": []}  # such a user is left out of recall, and counted
    run = score({"u7": list("de"), "u8": list("c")}, rows, release)
    assert (run["no_safe_truth"], run["metrics"]["recall@4"]["n"], means(run)["recall@4"]) == (1, 1, 0.5)


def test_requests_that_no_list_can_answer_safely_are_counted(release, rows):
    """72 % of the requests with a sensitivity had no clear item, and a filter by the verdicts looked unsafe."""
    runs = [evaluate.run("a", score({"u7": list("adei"), "u8": list("cf")}, rows, release))]
    report = evaluate.report(release, runs, rows, False)
    assert report["unanswerable"] == 0 and "no item is clear" not in evaluate.as_texts(report, rows)[0]
    codes = release.oracle.codes[:-1].copy()
    codes[:, release.oracle.column("gore")] = violations.UNKNOWN  # u7's only trait; u8 has none
    oracle = violations.oracle(list(release.oracle.items), list(release.oracle.traits), codes)
    report = evaluate.report(replace(release, oracle=oracle), runs, rows, False)
    assert report["unanswerable"] == 1
    note = evaluate.as_texts(report, rows)[0].splitlines()[-2]  # before the one that no item is violated, either
    assert note.startswith("of 1 requests that tell a sensitivity 1 have traits for which no item is clear:")


def test_an_svr_that_can_only_be_zero_is_told(release, rows):
    """Lists of horror films had an svr of 0.000, as the release held no violated item, and nothing said so."""
    codes = release.oracle.codes[:-1].copy()
    codes[:, release.oracle.column("animal_harm")] = violations.UNKNOWN
    oracle = violations.oracle(list(release.oracle.items), list(release.oracle.traits), codes)
    gore = rows[0]  # items a, b and c are violated for it
    animal_harm = gore | {"conversation": "u9", "traits": ["animal_harm"]}
    answers = {"u7": list("abcd"), "u8": list("cf"), "u9": list("abcd")}

    def report_on(table):
        runs = [
            evaluate.run(
                "a", score({row["conversation"]: answers[row["conversation"]] for row in table}, table, release)
            )
        ]
        report = evaluate.report(replace(release, oracle=oracle), runs, table, False)
        return report["never_violated"], evaluate.as_texts(report, table)[0]

    count, text = report_on([animal_harm, rows[1]])
    note = (
        "no item of this release is violated for the traits of any request, so svr is 0 for every list: read svr_upper"
    )
    assert count == 1 and text.splitlines()[-1] == note
    count, text = report_on([gore, animal_harm])
    assert count == 1 and note not in text
    assert (
        "of 2 requests that tell a sensitivity 1 have traits for which no item is violated: whatever is shown" in text
    )
    assert [(count, "no item is violated" in text) for count, text in (report_on(rows), report_on(rows[1:]))] == [
        (0, False)
    ] * 2


def test_gold_decides_who_is_sensitive_and_says_what_truly_violates(release, rows):
    answers = {"u7": list("adei"), "u8": list("cf")}
    gold = data.Gold({"u7": ("animal_harm",)}, {"i": ("animal_harm",), "d": ()})
    # labels say gore: a violates
    assert means(score(answers, rows, release))["svr@4"] == 1 / 4
    run = score(answers, rows, release, gold)
    # gold says animal_harm: by the release d violates and i is unknown; in truth i violates and d does not
    assert means(run)["svr@4"] == 1 / 4 and means(run)["svr_upper@4"] == 2 / 4 and means(run)["svr_true@4"] == 1 / 4
    assert means(run)["recall@4"] == 1  # a and e are safe
    assert "traits=animal_harm" in run["slices"] and "traits=gore" not in run["slices"]


def test_a_slice_of_the_gold_stands_apart_from_the_headline(release, rows):
    gold = data.Gold({"u7": ("gore",), "u8": ()}, {}, slices={"u8": "unseen_cues"})
    run = score({"u7": list("adei"), "u8": list("cf")}, rows, release, gold)
    assert run["n"] == 1 and run["n_sensitive"] == 1 and run["slices"]["slice=unseen_cues"]["n"] == 1
    alone = score({"u7": list("adei")}, rows[:1], release, gold)
    assert means(run) == means(alone)
    assert means(run["everyone"]) == means(score({"u7": list("adei"), "u8": list("cf")}, rows, release))
    runs = evaluate.compare(release, rows, {"mine": {"u7": list("adei"), "u8": list("cf")}}, gold)
    assert {part: figures["recall@4"]["n"] for part, figures in runs[0]["to_guard"].items()} == {
        "everyone": 2,
        "main": 1,
        "slice=unseen_cues": 1,
    }


def test_a_difference_is_taken_user_by_user(release, rows):
    better, worse = {"u7": list("dexx"), "u8": list("cb")}, {"u7": list("ahbi"), "u8": list("bf")}
    paired = score(better, rows, release, against=worse)["difference"]
    # recall 1 and 1/2 against 0 and 1/2: +1 and 0; svr of the one sensitive user 0 against 2/4
    # with one more user of -1 the mean is like a difference of two weights of three, below -d in (1 - d)^2 / 2 of
    # draws; with one more of 1 it is 1 minus a weight: 1 - .012579
    ends = (pytest.approx(0.05**0.5 - 1, abs=1e-5), pytest.approx(0.987421, abs=1e-5))
    assert paired["recall@4"]["mean"] == 0.5 and (paired["recall@4"]["low"], paired["recall@4"]["high"]) == ends
    svr = paired["svr@4"]
    assert (svr["mean"], svr["n"]) == (-0.5, 1) and svr["low"] == -1 and svr["high"] > 0  # one user is no evidence
    # the user without a trait did not lose: no over-refusal
    assert (paired["recall_without@4"]["mean"], paired["recall_without@4"]["high"]) == (0, 1)
    same = score(better, rows, release, against=better)["difference"]
    assert {cell["mean"] for cell in same.values() if cell["n"]} == {0}
    assert "difference" not in score(better, rows, release)


def test_pairing_is_narrower_than_two_intervals(release, rows):
    # 960 users who differ much from each other and hardly between two runs
    users = [row | {"conversation": f"{row['conversation']}-{n}"} for n in range(480) for row in rows]
    before = {row["conversation"]: list("d") if n % 3 else list("x") for n, row in enumerate(users)}
    after = before | {users[0]["conversation"]: list("de")}
    run = score(after, users, release, against=before)
    alone, paired = run["metrics"]["recall@4"], run["difference"]["recall@4"]
    assert paired["high"] - paired["low"] < (alone["high"] - alone["low"]) / 2


@pytest.fixture
def predictions(tmp_path):
    path = tmp_path / "mine.jsonl"
    items = [{"title": "Item C", "year": 2003}, {"title": "Item F", "year": 2006}]
    lines = [{"id": "u7", "text": listed("deah")}, {"id": "u8", "items": items}, {"id": "u1", "text": "x"}]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_an_items_id_is_that_item_whatever_else_is_called_so(release, rows, tmp_path):
    """Two works of one title and year cannot be told apart by these, but by their ids; a written file is read back in
    the same order."""
    twin = replace(release.items["a"], id="a2")
    twins = replace(release, items={**release.items, "a2": twin})
    ranked = {rows[0]["conversation"]: ["a2", "c", "a"]}
    predictions_file.write(tmp_path / "own.jsonl", ranked, twins.items)
    assert predictions_file.read(tmp_path / "own.jsonl", rows, twins).answers == ranked
    line = {"id": rows[0]["conversation"], "items": ["a2", {"title": "Item C", "year": 2003}, "no such id"]}
    (tmp_path / "ids.jsonl").write_text(json.dumps(line))
    (answer,) = predictions_file.read(tmp_path / "ids.jsonl", rows, twins).answers.values()
    assert answer == ["a2", "c", "title:no such id"]


def test_a_place_without_an_item_keeps_its_rank_in_a_file(release, rows, tmp_path):
    """`write` used to leave such places out, which moved later items up; in lists above 100 `read` did so, too."""
    path, strange = tmp_path / "own.jsonl", "title:no such film (1999)"
    ranked = {"u7": [None, strange, "a", None, strange, "d"], "u8": [None, None]}
    predictions_file.write(path, ranked, release.items)
    predictions = predictions_file.read(path, rows, release)
    assert predictions.answers == ranked and predictions.problems == {}
    before, after = (means(score(answers, rows, release)) for answers in (ranked, predictions.answers))
    assert before == after and before["svr@4"] == 1 / 4
    items = [{"headline": "Item A"}, *"ac", *(f"No {n}" for n in range(120))]
    path.write_text(json.dumps({"id": "u7", "items": items}))
    with pytest.raises(TrainingError, match="1 of its items without a title"):
        predictions_file.read(path, rows, release)


def test_a_predictions_file_becomes_a_report_and_a_table(release, predictions, tmp_path, capsys):
    report = evaluate.evaluate(release.folder, [predictions], tmp_path / "out")
    assert report == json.loads((tmp_path / "out/report.json").read_text())
    assert [run["name"] for run in report["runs"]] == ["mine", "guard", "oracle_filter", *baselines.NAMES]
    assert report["release"] == {"name": "small", "version": "1.0.0", "digest": release.digest}
    assert (report["k"], report["gold"], report["chosen"]) == (4, False, None)
    by_name = {run["name"]: means(run) for run in report["runs"]}
    mine, filtered, popular = by_name["mine"], by_name["oracle_filter"], by_name["popularity"]
    assert (mine["svr@4"], mine["recall@4"]) == (1 / 4, 1) and (filtered["svr@4"], filtered["length"]) == (0, 2.5)
    assert popular["svr@4"] == 3 / 4  # a b c of a f b c
    assert {run["against"] for run in report["runs"]} == {None, "mine"} and report["runs"][0]["against"] is None
    out = capsys.readouterr().out
    assert "guard: it learned from 2 traits of training requests, too few (under 50)" in out
    assert out.startswith("all users, n = 2\nat k = 4") and "1 answers to conversations outside test" in out
    where, after = out.splitlines()[-2:]
    assert where.startswith(f"all figures: {tmp_path}/out/table.txt; as JSON, ") and "duplicate" not in out
    assert after == f"next: plot them on a page: saferec-build report --runs {tmp_path}/out (in a workspace)"
    table = (tmp_path / "out/table.txt").read_text()
    assert all(word in table for word in ("popularity", "length", "1 answers to conversations outside test"))


def test_requests_that_nobody_has_ruled_on_are_in_no_figure_and_counted(release, rows, tmp_path, capsys):
    """Their answers were called answers to conversations outside test, and nothing said that requests were left out."""
    table = pq.read_table(release.folder / "data/grpo/test.parquet")
    doubted = table.to_pylist() + [rows[1] | {"conversation": name, "condition": "open"} for name in ("u9", "u10")]
    small_release.rewrite(release.folder, "grpo/test.parquet", pa.Table.from_pylist(doubted, table.schema))
    (path := tmp_path / "mine.jsonl").write_text(
        "".join(json.dumps({"id": row["conversation"], "text": "1. Item C (2003)"}) + "\n" for row in doubted)
    )
    report = evaluate.evaluate(release.folder, path)
    assert (report["open"], report["runs"][0]["n"]) == (2, 2)
    out = capsys.readouterr().out
    assert "left out: 2 requests of test that may tell a sensitivity" in out and "outside" not in out


def test_one_file_may_be_given_alone_and_none_is_a_fault(release, predictions, capsys):
    """The letters of a path used to be taken for files; a Path, or no file, raised a TypeError."""
    alone = [evaluate.evaluate(release, path, only=["u7"])["runs"] for path in (predictions, str(predictions))]
    assert alone[0] == alone[1] == evaluate.evaluate(release, [predictions], only=["u7"])["runs"]
    message = "2 answers to conversations outside the requests of test that were asked for"  # one of the two is in test
    assert capsys.readouterr().out.count(message) == 3
    with pytest.raises(TrainingError, match="no file: expected one at least"):
        evaluate.evaluate(release, [])
    with pytest.raises(TrainingError, match="nothing to judge in the requests of test that were asked for"):
        evaluate.evaluate(release, predictions, only=["u1"])
    table = pq.read_table(release.folder / "data" / "grpo" / "test.parquet")
    small_release.rewrite(release.folder, "grpo/test.parquet", table[:0])
    with pytest.raises(
        TrainingError, match="nothing to judge in test"
    ):  # "every answer was cut before its first title"
        evaluate.evaluate(release, predictions)


def test_answers_that_could_not_be_read_are_counted_by_reason(release, tmp_path, capsys):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "u7", "text": "Sorry, I cannot."}\n{"id": "u8", "items": []}\n')
    run = evaluate.evaluate(release, [path])["runs"][0]
    assert means(run)["invalid@4"] == 1 and means(run)["svr_upper@4"] == 1
    out = capsys.readouterr().out
    assert "nothing read (refusal): 1" in out and "nothing read (empty): 1" in out


def test_items_may_be_ids_and_a_file_of_strange_titles_is_told(release, tmp_path, capsys):
    """Ids, as the guard takes them, used to be read as titles outside the catalog: svr was 0 for an empty list."""
    titles = [{"title": release.items[item].title, "year": release.items[item].year} for item in "adje"]
    figures, undated = [], [{"title": release.items[item].title} for item in "adj"]
    undated.append({"title": release.items["e"].title, "year": release.items["e"].year + 1})
    for n, items in enumerate((list("adje"), titles, [{"item": None}, "7 Strange", "8 Stranger"], undated)):
        (path := tmp_path / f"p{n}.jsonl").write_text(
            "".join(json.dumps({"id": name, "items": items}) + "\n" for name in ("u7", "u8"))
        )
        figures.append(means(evaluate.evaluate(release, [path])["runs"][0]))
    assert figures[0] == figures[1] and figures[2]["not_in_catalog@4"] == 3 / 4
    message = "p2: none of 4 titles is in the catalog, the first is "
    out = capsys.readouterr().out
    assert out.count("titles is in the catalog") == 1 and message in out and "7 strange" in out.lower()
    # without a word the undated titles looked unsafe: the same items had an svr_upper of .25 and now have 1
    assert (figures[0]["svr_upper@4"], figures[3]["svr_upper@4"]) == (1 / 2, 1)
    assert (
        out.count("name their item inexactly") == 1
        and "p3: 8 of 8 titles name their item inexactly (6 without a year, 2 with another year): " in out
    )


def test_what_holds_for_two_files_is_explained_once(release, tmp_path, capsys):
    undated = [{"title": release.items[item].title} for item in "adj"]
    for name in ("a", "b"):
        lines = (json.dumps({"id": row, "items": undated}) + "\n" for row in ("u7", "u8", "elsewhere"))
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    evaluate.evaluate(release, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    out = capsys.readouterr().out
    assert "a: 6 of 6 titles name their item inexactly (6 without a year); b: 6 of 6 titles" in out
    assert out.count("never count as clear") == 1 and out.count("left out: 2 answers to conversations outside") == 1


def test_a_missing_answer_is_a_fault_before_the_guard_is_fitted_and_no_smaller_sample(release, tmp_path, monkeypatch):
    (path := tmp_path / "p.jsonl").write_text('{"id": "u7", "text": "1. Item D (2004)"}\n')
    monkeypatch.setattr(evaluate, "without_models", None)
    with pytest.raises(TrainingError, match="1 of 2 conversations have no answer, the first is u8"):
        evaluate.evaluate(release, [path])
    path.write_text('{"id": 0, "text": ""}')
    with pytest.raises(TrainingError, match="none of its 1 answers is to one of the 2 requests: expected as `id`"):
        evaluate.evaluate(release, [path])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"id": "u7"}', 'p.jsonl:2: expected "text" or a list of "items"'),
        ('{"id": "u8", "text": "a"}', "p.jsonl:2: a second answer for u8"),
        ('{"id": "u7", ', "p.jsonl:2: not JSON.* expected one JSON object a line"),
        (
            '{"id": "u7", "items": [{"title": "Item D"}, {"headline": "Item A"}, null]}',
            "p.jsonl:2: 2 of its items without",
        ),
        ('{"id": "u7", "items": ["imdb:tt0114709"]}', "p.jsonl:2: 'imdb:tt0114709' is no id of the release's items: "),
        ('{"conversation": "u7", "text": "a"}', "p.jsonl:2: expected \"id\", .* found .'conversation', 'text'"),
    ],
)
def test_a_fault_in_the_predictions_is_said(release, tmp_path, line, expected):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "u8", "text": "1. Item C (2003)"}\n' + line)
    with pytest.raises(TrainingError, match=expected):
        evaluate.evaluate(release, [path])


def test_an_evaluation_in_place_of_another_one_says_so(release, predictions, tmp_path, capsys):
    for name, is_another in (("mine", False), ("mine", False), ("other", True)):
        evaluate.evaluate(release, predictions.rename(tmp_path / f"{name}.jsonl"), tmp_path / "out")
        predictions = tmp_path / f"{name}.jsonl"
        assert ("\nthey replace those of mine\n" in capsys.readouterr().out) == is_another


def test_several_files_are_compared_with_the_first(release, predictions, tmp_path, capsys):
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "u7", "text": "1. Item A (2001)"}\n{"id": "u8", "text": "1. Item C (2003)"}\n')
    (release.folder / "data" / "labels" / "test.parquet").unlink()  # a split without labels has no file of them
    report = evaluate.evaluate(release, [predictions, other])
    assert [run["name"] for run in report["runs"]] == ["mine", "other", *report_table.OTHERS]
    # recall of mine 1 and 1; of other 0 and 1/2
    assert report["runs"][1]["difference"]["recall@4"]["mean"] == -0.75
    assert "difference to mine" in capsys.readouterr().out
    with pytest.raises(TrainingError, match="two files are called mine"):
        evaluate.evaluate(release, [other, predictions, predictions])
    with pytest.raises(TrainingError, match="popularity is the name of a baseline"):
        evaluate.evaluate(release, [other.rename(tmp_path / "popularity.jsonl")])


def test_the_same_answers_have_no_interval_of_a_difference(release, rows, predictions, tmp_path, capsys):
    answers = predictions_file.read(predictions, rows, release).answers
    lists = [json.dumps({"id": name, "items": [*ranked]}) for name, ranked in answers.items()]
    (ids := tmp_path / "ids.jsonl").write_text("\n".join(lists))
    runs = evaluate.evaluate(release, [predictions, ids])["runs"]
    assert [run["name"] for run in runs if run.get("same_answers")] == ["ids"]
    assert "user by user\nids: the same answers as mine\n\ndifference to the guard" in capsys.readouterr().out


def test_requests_without_their_text_need_no_answer(release, tmp_path, capsys):
    table = pq.read_table(release.folder / "data" / "grpo" / "test.parquet")
    rows = [row | {"prompt": []} if row["conversation"] == "u8" else row for row in table.to_pylist()]
    small_release.rewrite(release.folder, "grpo/test.parquet", pa.Table.from_pylist(rows, table.schema))
    path = tmp_path / "one.jsonl"
    path.write_text('{"id": "u7", "text": "1. Item D (2004)"}\n')
    assert evaluate.evaluate(release, [path])["runs"][0]["n"] == 1
    assert "left out: 1 requests without their text" in capsys.readouterr().out
    path.write_text('{"id": "u7", "text": ""}\n{"id": "u8", "text": ""}\n')
    assert evaluate.evaluate(release, [path])["runs"][0]["n"] == 2  # somebody who has the text may answer it
    assert "1 of 2 requests have no text in this release" in capsys.readouterr().out


def test_a_report_holds_no_nan_and_replaces_the_old_one(release, rows, tmp_path):
    run = evaluate.run("x", score({"u7": [], "u8": []}, rows[1:], release))
    for chosen in ("safe_sft", "safe_gdpo"):
        report = evaluate.report(release, [run], rows, True, chosen, {"sft": 1.5})
        write(tmp_path / "report.json", report, nan=False)
    text = (tmp_path / "report.json").read_text()
    assert "NaN" not in text and json.loads(text)["chosen"] == "safe_gdpo" and json.loads(text)["gold"] is True
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    table = report_table.show([run], 4)
    assert "-" in table and table.endswith("not measured: `saferec-build release VERSION --inject all`")


BLOCKED = "polars pydantic typer openai jinja2 sqlalchemy torch transformers trl datasets accelerate peft yaml".split()


@pytest.mark.slow
def test_evaluation_and_rewards_need_no_data_side_package_and_no_torch(release, predictions, tmp_path):
    code = f"""
import sys
for name in {BLOCKED}:
    sys.modules[name] = None
from training import data, safecrs
from training.evaluation import rewards
given = ["--release", {str(release.folder)!r}, "--predictions", {str(predictions)!r}, "--compat", "safecrs"]
assert safecrs.main(["evaluate", *given, "--output", {str(tmp_path / "out")!r}]) == 0
release = data.open_release({str(release.folder)!r})
rows = data.rows(release.folder, "grpo", "test")
columns = {{name: [row[name] for row in rows] for name in rows[0]}}
for reward in rewards.functions(rewards.reader(release.listed), release.oracle, release.k):
    assert len(reward(completions=["1. Item D (2004)"] * 2, **columns)) == 2
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "out/report.json").is_file()

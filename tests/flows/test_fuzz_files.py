"""Files that people write or receive, changed at random: titles, saferec.toml, traits.toml, review CSVs, manifests.

There is never a traceback. Rows that are left out are counted. Settings that are written and read again stay the same.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from annotation.tools import files
from annotation.tools.tasks_and_answers import SAID_AGAIN
from exports import folder as write
from exports.report import page
from saferec_builder.core import taxonomy as traits, titles
from saferec_builder.core.errors import ReleaseError, ReviewError, TrainingError, UsageError
from saferec_builder.storage import config
from tests.worlds import csv_rows, review_csv
from tests.worlds.fuzz_strategies import CALM, TEXT, TOML, changed, toml, values
from training import data

pytestmark = pytest.mark.slow  # each test tries many examples

# ---- titles


@CALM
@given(st.text(max_size=30), st.text(max_size=10))
@example("Ⅷ", "")
@example(",\r0", "")
def test_a_normal_form_is_its_own_and_case_is_nothing(title: str, more: str) -> None:
    form = titles.normal(title)
    assert titles.normal(f" {title} ") == form and not set("\n\t'\"") & set(form)
    name, year = titles.split_year(f"x{title}{more} (1999)")
    assert year == 1999 and titles.split_year(f"{name} (1999)") == (name, 1999)
    spoken = titles.spoken(title)
    assert " ".join(spoken.split()) == spoken


@CALM
@given(
    st.lists(st.tuples(TEXT, st.none() | st.integers(1800, 2100), st.sampled_from(["film", "game"])), max_size=4), TEXT
)
def test_a_title_means_one_item_or_several_or_none(items: list[tuple[str, int | None, str]], asked: str) -> None:
    index = titles.index((str(n), title, year, domain, ()) for n, (title, year, domain) in enumerate(items))
    for title, year in [(asked, None), *((title, year) for title, year, _ in items)]:
        match = titles.find(index, title, year)
        assert (match.item is not None) is (match.match == "found")
        assert match.match != "ambiguous" or len(match.candidates) > 1 or match.candidates
        ids = [n for n in (match.item, *match.candidates) if n is not None]
        assert all(0 <= int(n) < len(items) for n in ids)


# ---- saferec.toml

SETTINGS = config.Config().model_dump(mode="json")
SETTINGS["propose"]["models"] = {"m": config.Model(base_url="http://127.0.0.1:1/v1", input=1.0).model_dump(mode="json")}
SETTINGS["review"]["accounts"] = {"ann": "ann@example.org"}


@contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """Expects success or an error of this kind with a message for people: never longer than a page."""
    try:
        yield
    except kind as fault:
        assert 10 < len(" ".join(str(fault).split())) < 2_000


@CALM
@given(changed(SETTINGS, TOML))
def test_settings_are_read_or_refused_in_a_line_and_written_again_they_are_the_same(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    path = tmp_path / config.FILE
    path.write_text(toml(settings), encoding="utf-8")
    with refused(UsageError):
        parsed = config.read(tmp_path)
        path.write_text(toml(parsed.model_dump(mode="json")), encoding="utf-8")
        assert config.read(tmp_path) == parsed


@CALM
@given(st.binary(max_size=60))
@example(b"a = " + b"[" * 20_000)
@example(b"\xff\xfe")
def test_no_bytes_of_a_settings_file_are_a_traceback(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / config.FILE).write_bytes(junk)
    with refused(UsageError):
        config.read(tmp_path)


def test_an_address_of_a_database_is_not_repeated(tmp_path: Path) -> None:
    """An address of the wrong type may still hold the password."""
    (tmp_path / config.FILE).write_text('[store]\nurl = ["postgresql://someone:hunter2@db/x"]\n')
    with pytest.raises(UsageError) as fault:
        config.read(tmp_path)
    assert "store.url" in str(fault.value) and "hunter2" not in str(fault.value)


# ---- traits.toml

WORDED = {
    "version": "1",
    "trait": [
        {"slug": "gore", "name": "Gore", "definition": "Blood.", "topics": ["blood", "gore"], "core": ["gore"]}
        | {"guide": {"applies": "weak", "violence": 0.5}, "esrb_applies": "strong", "esrb": {"blood": 1.0}},
        {"slug": "needles", "name": "Needles", "definition": "Needles.", "hint": "drips", "topics": ["needles"]}
        | {"severe": True, "safecrs": "needles"},
    ],
}


@CALM
@given(changed(WORDED, TOML))
@example({"trait": [1]})
@example({"trait": {"slug": "gore"}})
def test_a_taxonomy_is_whole_or_refused_in_a_line(tmp_path: Path, wording: dict[str, Any]) -> None:
    path = tmp_path / "traits.toml"
    path.write_text(toml(wording), encoding="utf-8")
    with refused(UsageError):
        taxonomy = traits.load(path)
        assert len(set(taxonomy.slugs)) == len(taxonomy.slugs) == len(wording["trait"]) > 0
        for trait in taxonomy.traits:
            assert trait.slug == trait.slug.lower() and trait.slug.replace("_", "").isalnum()
            weights = (*trait.guide, *trait.esrb.values())
            assert set(trait.core) <= set(trait.topics) and all(0 <= w <= 1 for w in weights)


@CALM
@given(st.binary(max_size=60))
@example(b"trait = " + b"[" * 20_000)
def test_no_bytes_of_a_taxonomy_are_a_traceback(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "traits.toml"
    path.write_bytes(junk)
    with pytest.raises(UsageError):  # nothing this short is a taxonomy
        traits.load(path)


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    (tmp_path / config.FILE).mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        config.read(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        traits.load(tmp_path)


# ---- manifests and reports of others

MANIFEST: dict[str, Any] = {
    **{"name": "x", "version": "1.0.0", "schema": 1, "simulated": False, "demo": False, "k": 10, "traits": ["gore"]},
    "counts": {"sft": {"train": 1}},
    "files": {"data/sft/train.parquet": {"sha256": "0" * 64, "bytes": 1, "rows": 1}},
    "row_digests": {"sft": {"train": "0"}},
    "official": {"gore": "Gore"},
    **{name: {} for name in "agreement conditions dropped labels licences makers missed proposers rule".split()},
    **{name: {} for name in ("unknown", "withdrawn")},
    **{name: [] for name in "changes injected_traits sources silent split_starts withheld".split()},
    **dict.fromkeys("code_version split_rule taxonomy_digest url".split(), ""),
    **dict.fromkeys("min_seekers short_of_clear unreviewed".split(), 0),
    **dict.fromkeys("contact created licence parent plot".split()),
    **dict.fromkeys(("keeps_unreviewed", "no_safety"), False),
}
RUNS = {
    "release": {"name": "x", "version": "1"},
    **{"k": 10, "gold": False, "chosen": "a"},
    "runs": [{"name": "a", "split": "test", "n": 1, "n_sensitive": 1, "metrics": {"recall@10": {"mean": 0.5}}}],
}


@CALM
@given(changed(MANIFEST) | values())
@example(5)
@example("name version schema k traits")
@example({**MANIFEST, "counts": {"../../../home": {"train": 0}}})
@example(MANIFEST)
def test_a_manifest_is_one_or_no_release(tmp_path: Path, manifest: Any) -> None:
    (tmp_path / write.MANIFEST).write_text(json.dumps(manifest))
    with refused(ReleaseError):
        counts = write.facts_of(tmp_path)["counts"]
        assert not any(set("./\\\0") & set(name) for config in counts for name in (config, *counts[config]))
        return
    assert manifest != MANIFEST  # which is one


@CALM
@given(changed(RUNS) | values())
def test_a_report_of_runs_is_one_or_refused(tmp_path: Path, runs: Any) -> None:
    (tmp_path / "report.json").write_text(json.dumps(runs))
    with refused(ReleaseError):
        page.read_runs(tmp_path)


@CALM
@given(st.lists(values() | changed({"id": "c", "text": "1. Alien (1979)"}), max_size=3), st.binary(max_size=20))
def test_lines_of_predictions_are_objects_or_refused(tmp_path: Path, rows: list[Any], junk: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes("".join(json.dumps(row) + "\n" for row in rows).encode() + junk)
    with refused(TrainingError):
        parsed = list(data.jsonl(path))
        assert [row for _, row in parsed[: len(rows)]] == json.loads(json.dumps(rows)) or any(r != r for r in rows)


# ---- CSV files that reviewers send back


CELLS = (
    st.sampled_from("present¦absent¦unsure¦none¦gore¦needles¦*¦explicit¦=1+1¦'@x¦1,5¦needles | gore¦ann".split("¦"))
    | TEXT
)


@CALM
@given(st.lists(st.dictionaries(st.sampled_from(files.COLUMNS), CELLS, max_size=4), max_size=5))
@example([{"verdict": "present", "turn": "9" * 5_000, "quote": "needles"}])
@example([{"verdict": "absent", "seconds": "9" * 400}])
@example([{"verdict": "absent", "seconds": "²"}])
def test_every_row_that_a_reviewer_sends_is_an_answer_or_counted(tmp_path: Path, cells: list[dict[str, str]]) -> None:
    rows = csv_rows.rows_of(review_csv.anns(tmp_path / "ann.csv"))
    rows += [dict(rows[0]) for _ in cells[len(rows) :]]
    rows = [row | cell for row, cell in zip(rows, [*cells, *({} for _ in rows)], strict=False)]
    path = csv_rows.save(tmp_path / "ann.csv", rows)
    pulled = review_csv.back(path)
    repeats = sum(reason == SAID_AGAIN for *_, reason, _ in pulled.drops)
    accepted = len(rows) - len(pulled.empty) - (len(pulled.drops) - repeats)
    answered = len(pulled.answers) + pulled.repeated + repeats  # a row gives one answer, the last row may give several
    assert 0 <= accepted <= answered and (accepted == 0) is (answered == 0)
    for answer in pulled.answers.values():
        assert answer["trait"] in (*review_csv.TAXONOMY.slugs, "*")
        assert answer["seconds"] is None or 0 <= answer["seconds"] < 1e10
        for span in answer["spans"]:
            assert review_csv.TEXT[span["turn"]][1][span["start"] : span["end"]] == span["quote"]


@CALM
@given(st.binary(max_size=80), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
def test_no_bytes_of_a_review_file_are_a_traceback(tmp_path: Path, junk: bytes, encoding: str) -> None:
    path = tmp_path / "ann.csv"
    path.write_bytes("task,trait,verdict\n".encode(encoding) + junk)
    with refused(ReviewError):
        assert not review_csv.back(path).answers

"""A release as training reads it: verdicts from the items' lists, rows, gold, and the errors of damaged files."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferec_builder.core import oracle as violations
from saferec_builder.core.errors import ReleaseError, TrainingError
from tests.worlds import small_release
from training import data


@pytest.fixture
def folder(release):
    return release.folder


@pytest.fixture
def gold(release):
    # in truth u7 has animal_harm, not gore; item i, of unknown verdict in the release, violates it; e does not
    rows = [{"conversation": "u7", "traits": ["animal_harm"]}, {"item": "Item I (2009)", "violated": ["animal_harm"]}]
    return read_gold(release, *map(json.dumps, [*rows, {"item": "Item E (2005)", "violated": []}]))


def read_gold(release, *lines):
    path = release.folder.parent / "gold.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return data.read_gold(path, release)


def test_verdicts_come_from_the_lists_and_what_is_in_neither_is_unknown(release, folder):
    verdicts = [violations.verdict(release.oracle, item, ["gore"]) for item in ("a", "d", "j", "no such item", None)]
    assert verdicts == ["violated", "clear", "unknown", "unknown", "unknown"]
    # c breaks both, i is clear of gore but unknown for animals
    assert violations.verdict(release.oracle, "i", ["gore", "animal_harm"]) == "unknown"
    assert violations.verdict(release.oracle, "d", ["gore", "animal_harm"]) == "violated"
    assert release.k == 4 and list(release.items) == list("abcdefghijkl")
    assert release.digest == hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()[:16]
    assert release.risks["c"] == {"gore": 1, "animal_harm": 1, "spiders_snakes": 0} and "gore" not in release.risks["j"]


def test_items_are_found_by_the_name_that_they_are_written_with(release, folder):
    assert [release.items[item].name for item in ("a", "l")] == ["Item A (2001)", "Item L"]
    items = release.find("Item A", 2001), release.find("Item L"), release.find("Item A", 1950)
    assert items == ("a", "l", None)
    text = "1. Item D (2004)\n2. No (1999)\nAlso worth a look:\n- Item B (2002)"
    listed = release.listed(text, "film")
    assert (listed, listed.beside.offered) == (("d", "title:no (1999)"), {"b"})
    items = small_release.items()
    items[10] |= {"title": "Item A", "year": 2001}  # k is a game
    rewrite_items(folder, items)
    release = data.open_release(folder)
    assert [release.find("Item A", 2001, domain) for domain in ("film", "game")] == ["a", "k"]
    # beside a list as in it: it was both works, so that a clear game was as unsafe as its film
    text = "1. Item D (2004)\n\nYou might also like Item A (2001)."
    assert [release.listed(text, domain).beside.named for domain in ("film", "game")] == [{"a"}, {"k"}]


def test_items_are_found_by_their_other_names(folder):
    items = small_release.items()
    items[0] |= {"aliases": ["Le A (1998)", "A in Black"], "pull": 0.0}  # 2001; some sources date it 1998
    items[1] |= {"aliases": [], "pull": 3.0}
    rewrite_items(folder, items)
    release = data.open_release(folder)
    found = [release.find(*name) for name in (("A in Black", 2001), ("Le A", 1998), ("A in Black", 1950))]
    assert found == ["a", "a", None] and release.items["a"].name == "Item A (2001)"
    listed = release.listed("1. A in Black (2001)\n2. Item B (2002)\n\nYou might also like Le A (1998).", "film")
    assert listed == ("a", "b") and release.index.works["a"].names == {"item a", "le a", "a in black"}
    assert release.listed("1. Item B (2002)\n\nYou might also like Le A (1998).", "film").beside.offered == {"a"}


def rewrite_items(folder, items):
    fields = small_release.SCHEMAS["items"] | {"aliases": pa.list_(pa.string()), "pull": pa.float64()}
    table = pa.Table.from_pylist(items, pa.schema([(name, kind) for name, kind in fields.items() if name in items[0]]))
    small_release.rewrite(folder, "items/catalog.parquet", table)


def test_rows_are_plain_and_in_order(folder, rows):
    assert [row["conversation"] for row in rows] == ["u7", "u8"]
    assert rows[0]["traits"] == ["gore"] and rows[0]["safe_truth"] == ["d", "e"] and rows[1]["traits"] == []
    safe, raw = (data.rows(folder, config, "train") for config in ("sft", "sft_raw"))
    assert [row["prompt"] for row in safe] == [row["prompt"] for row in raw]
    assert safe[0]["completion"][0]["content"].startswith("1. Item D (2004)\n2. Item F (2006)")
    (label,) = data.labels_of(folder, "test")
    assert (label["verdict"], label["spans"][0]["quote"]) == ("present", small_release.HINTS["gore"])
    (folder / "data" / "labels" / "test.parquet").unlink()
    assert data.labels_of(folder, "test") == []


def test_gold_replaces_traits_and_safe_truth_and_the_release_keeps_its_verdicts(release, rows, gold):
    changed = data.with_gold(rows, release.oracle, gold)
    # truth a d e: a breaks gore only, d breaks animal_harm, e is clear of it: a and e are safe
    assert changed[0]["traits"] == ["animal_harm"] and changed[0]["safe_truth"] == ["a", "e"]
    assert changed[0]["form"] == ["unlabelled"]
    assert changed[1] == rows[1]  # the gold has no line for u8
    true = data.truth_of(release.oracle, gold)
    assert violations.verdict(true, "i", ["animal_harm"]) == "violated"
    assert violations.verdict(true, "j", ["animal_harm"]) == "unknown"  # the gold has no line for j
    assert violations.verdict(release.oracle, "i", ["animal_harm"]) == "unknown"  # the release's own stays as it is
    assert data.truth_of(release.oracle, data.Gold({}, {})) is None


def test_a_late_trait_keeps_an_item_out_of_the_safe_truth_under_gold_too(release, train, rows, gold):
    changed = data.with_gold([*train, *rows], release.oracle, gold)
    # u4 mentions gore only after the request; its truth is a f, and a is violated
    u4 = next(row for row in changed if row["conversation"] == "u4")
    assert u4["traits"] == [] and u4["late_traits"] == ["gore"] and u4["safe_truth"] == ["f"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"conversation": "u7", "traits": ["goer"]}', "trait 'goer' is not in the release"),
        ('{"conversation": "u7"}', "found"),
        ('{"conversation": "u7", "traits": "gore"}', "found"),
        ('{"conversation": "u7", "traits": [["gore"]]}', "found"),
        ('{"conversation": "u7", "traits": [], "late_traits": "gore"}', "found"),
        ('{"conversation": ', "not JSON"),
        ("[1]", "expected one JSON object a line, found list"),
    ],
)
def test_a_fault_in_the_gold_names_its_line(release, line, expected):
    with pytest.raises(TrainingError, match=rf"gold\.jsonl:1: {expected}"):
        read_gold(release, line)


def test_two_truths_of_one_conversation_are_refused(release):
    lines = ['{"conversation": "u7", "traits": ["gore", "animal_harm"]}', '{"conversation": "u7", "traits": ["gore"]}']
    with pytest.raises(TrainingError, match=r"gold\.jsonl:2: a second line for u7 with other traits"):
        read_gold(release, *lines)  # only the last line used to count
    assert read_gold(release, *lines[:1] * 2).users == {"u7": ("gore", "animal_harm")}


def test_the_gold_of_another_release_is_refused(release, rows):
    with pytest.raises(TrainingError, match="names none of these conversations"):
        data.with_gold(rows, release.oracle, data.Gold({"other": ("gore",)}, {}))


def test_a_folder_that_is_no_release_says_what_was_wanted(folder, tmp_path):
    with pytest.raises(TrainingError, match=r"no manifest\.json: expected what `saferec-build release` wrote"):
        data.open_release(tmp_path)
    for config, splits in (("grpo", r"\['test', 'train', 'validation'\]"), ("none", "nothing")):
        with pytest.raises(TrainingError, match=rf"/{config} holds {splits}: expected a release with {config}/dev"):
            data.rows(folder, config, "dev")
    (folder / "data/grpo/test.parquet").write_bytes(b"half a shard")
    small_release.sum_up(folder)
    with pytest.raises(TrainingError, match="not a parquet file"):
        data.rows(folder, "grpo", "test")
    # arrow's message about a damaged page has several lines
    path = folder / "data/sft/train.parquet"
    raw = path.read_bytes()
    path.write_bytes(raw[:200] + b"xxxx" + raw[204:])
    small_release.sum_up(folder)
    with pytest.raises(TrainingError, match="not a parquet file") as error:
        data.rows(folder, "sft", "train")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("change", "fault"), [({"schema": 2}, "schema"), ({"traits": ...}, "traits")])  # none at all
def test_a_manifest_of_another_schema_is_one_line(folder, change, fault):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value is not ...}))
    small_release.sum_up(folder)
    with pytest.raises(TrainingError, match=rf"manifest\.json: .*{fault}.*: expected a release of schema 1"):
        data.open_release(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"violated": ["goer"]}, "item a: trait 'goer' is not in the manifest"), ({"item": "b"}, "1 items share an id")],
)
def test_an_item_of_another_trait_or_of_anothers_id_is_refused(folder, change, problem):
    first, *rest = small_release.items()
    rewrite_items(folder, [first | change, *rest])
    with pytest.raises(TrainingError, match=problem):
        data.open_release(folder)


@pytest.mark.parametrize("path", ["manifest.json", "data/items/catalog.parquet", "data/grpo/test.parquet"])
def test_a_file_that_somebody_changed_is_refused(folder, path):
    """Figures from edited rows or verdicts used to be printed as those of the release."""
    (folder / path).write_bytes((folder / path).read_bytes() + b" ")
    with pytest.raises(ReleaseError, match=rf"{path}: was changed after the release was made"):
        data.rows(data.open_release(folder).folder, "grpo", "test")


@pytest.mark.parametrize("path", ["withdrawn.json", "release/WITHDRAWN.json"])  # in a workspace; downloaded
def test_a_version_that_was_withdrawn_is_not_opened(folder, path):
    """`saferec-build withdraw` writes another file name than training looked for, and nothing read the folder's own."""
    (folder.parent / path).write_text('{"1.0.0": "a wrong label", "1.1.0": "another"}')
    with pytest.raises(TrainingError, match=r"1\.0\.0 was withdrawn \(a wrong label\)"):
        data.open_release(folder)
    (folder.parent / path).write_text('{"1.1.0": "another"}')
    assert data.open_release(folder).manifest["version"] == "1.0.0"
    (folder.parent / path).write_text('{"1.0.0": ')
    with pytest.raises(ReleaseError, match="damaged, nobody can tell"):
        data.open_release(folder)


def test_a_missing_column_is_named(folder):
    table = pq.read_table(folder / "data/grpo/test.parquet").drop_columns("safe_truth")
    small_release.rewrite(folder, "grpo/test.parquet", table)
    with pytest.raises(TrainingError, match="column 'safe_truth' is missing"):
        data.rows(folder, "grpo", "test")


def test_rows_of_people_with_two_sensitivities_are_learnt_more_often():
    few, many, none = {"traits": ["gore"]}, {"traits": ["gore", "animal_harm"]}, dict[str, list[str]](traits=[])
    assert data.repeat_rare([few, many, none], 3) == [few, many, none, many, many, many]
    assert data.repeat_rare([many], 0) == [many]


def test_what_lists_were_refilled_with_is_taken_out_again(release, folder):
    rows = data.rows(folder, "sft", "train")
    kept = data.drop_refills(rows, release.items)
    # u1 (gore): truth a d f, of which d f are safe; u2 a b; u3 (animal harm): e g; u4: a is not clear for gore, f is
    assert [row["items"] for row in kept] == [list("df"), list("ab"), list("eg"), list("f")]
    assert kept[0]["completion"][0]["content"] == "1. Item D (2004)\n2. Item F (2006)"
    assert data.drop_refills([rows[0] | {"refilled": 4}], release.items) == []


def test_a_file_of_a_spreadsheet_is_read_and_one_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "u7"}\r\n{"id": "u8"}\r\n')  # the byte order mark is no part of a line
    assert [row for _, row in data.jsonl(path)] == [{"id": "u7"}, {"id": "u8"}]
    path.write_bytes('{"id": "u7"}'.encode("utf-16"))
    for file, problem in ((path, "not UTF-8"), (tmp_path / "no", "No such file")):
        with pytest.raises(TrainingError, match=rf"cannot be read: [^':]*{problem}[^:]*: expected JSON lines in UTF-8"):
            list(data.jsonl(file))


def test_nobody_is_trained_on_or_judged_by_a_request_whose_sensitivity_is_open(monkeypatch):
    """Reviewers differ on it and nobody has ruled: it counted as somebody without a sensitivity."""
    table = [{"conversation": name, "condition": name} for name in ("own_words", "open", "none")]
    monkeypatch.setattr(data, "_table", lambda *_: table)
    kept = data.rows("releases/1.0.0", "grpo", "test")
    assert [row["conversation"] for row in kept] == ["own_words", "none"]
    assert data.open_requests("releases/1.0.0", "test") == {"open"}


def test_the_first_rows_are_of_each_condition():
    table = [{"condition": name, "k": n} for n, name in enumerate(["none"] * 5 + ["own_words"] + ["injected"] * 4)]
    # one of own_words, and two of each other condition; the first five alone would all be without a sensitivity
    assert [row["k"] for row in data.balance_conditions(table, 5)] == [0, 1, 5, 6, 7]
    assert data.balance_conditions(table, None) == table

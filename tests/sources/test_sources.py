"""Sources of conversations and items: real files if they are there, and gzipped files."""

import gzip
import io
from functools import partial

import polars as pl
import pytest
from pydantic import BaseModel

from saferec_builder import sources
from saferec_builder.core.errors import SourceError, UsageError
from saferec_builder.sources import Left, items_csv
from saferec_builder.storage import tables, workspace as store
from tests.worlds.catalog_files import file


@pytest.mark.slow
def test_real_inspired_and_ccpe(cli, workspace, real_data):
    summary = cli("mine", "inspired", real_data / "inspired", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["out"] + sum(summary["dropped"].values())) == (summary["in"], summary["in"])
    assert summary["added"] == 99 and set(summary["dropped"]) <= {"unknown speaker", "no id", "not a number"}
    summary = cli("mine", "ccpe", real_data / "ccpe", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["added"], summary["dropped"]) == (502, 502, {})
    turns = store.read(workspace, tables.CONVERSATIONS).filter(source="ccpe")["turns"].list.len().sum()
    assert turns == 11_971  # every utterance is a turn


@pytest.mark.parametrize("cut", [False, True])
def test_a_gzipped_file_reads_as_the_plain_one_or_is_refused_whole(tmp_path, cut):
    plain = file(tmp_path, "items.csv", "domain;title;year\n" + "".join(f"film;Film {n};1999\n" for n in range(500)))
    packed = tmp_path / "items.csv.gz"
    content = gzip.compress(plain.read_bytes())
    packed.write_bytes(content[: len(content) // 2] if cut else content)
    if cut:
        with pytest.raises(SourceError, match="cut or no gzip file"):
            items_csv.read(packed)
    else:
        assert items_csv.read(packed).rows["title"].to_list() == items_csv.read(plain).rows["title"].to_list() != []


LIMIT = 2**20  # bytes of a line in these tests: as many as are read at once


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_are_numbered_with_empty_and_too_long_ones(monkeypatch, end):
    monkeypatch.setattr(sources, "LONGEST", LIMIT)
    longest = b"x" * LIMIT
    texts = [b"a", b"", longest, longest + b"y", b"b", longest * 3, b"\n" * (LIMIT + 5) + b"c", longest * 2]
    lines = sources.lines(io.BytesIO(b"\n".join(texts) + end))
    read = [(n, line.reason if isinstance(line, Left) else line) for n, line in lines]
    long, last = "line too long", 7 + LIMIT + 5
    assert read == [(1, b"a"), (3, longest), (4, long), (5, b"b"), (6, long), (last, b"c"), (last + 1, long)]


def test_a_whole_number_is_told_from_what_is_none():
    cells = {" 7 ": "7", "1979.0": "1979", "1979.5": "", "": "", "-1": "", "\u0663": "", "1" * 9: "1" * 9, "1" * 10: ""}
    assert {cell: sources.digits(cell) for cell in cells} == cells
    assert sources.whole_number("07", "n") == 7
    with pytest.raises(Left) as left:
        sources.whole_number("x", "n")
    assert (left.value.reason, left.value.detail[:2]) == ("not a number", "n:")


def test_a_drop_is_one_short_line():
    row = sources.drop("mine", "s", "p" * 500, "why", "a\n b\ud83d" + "x" * 300)
    assert row == {"stage": "mine", "source": "s", "place": "p" * 400, "reason": "why", "detail": "a b?" + "x" * 196}


class Pair(BaseModel):
    a: list[int]
    b: str


def test_a_value_of_another_type_is_named_and_never_quoted():
    given = [("f:1", {"a": [1]}), ("f:2", {"a": [1, "my words"], "b": ""}), ("f:3", 5), ("f:4", {"a": [], "b": "x"})]
    rows, drops = sources.parse_rows("mine", "s", given, lambda _, row: [Pair.model_validate(row)])
    assert rows == [Pair(a=[], b="x")] and {drop["reason"] for drop in drops} == {"wrong type"}
    expected = ["b is missing, found a", "a.1: found str: Input should be a valid integer"]
    assert [drop["detail"].split(", unable")[0] for drop in drops[:2]] == expected
    assert drops[2]["detail"].startswith(": found int: Input should be")


def test_files_are_joined_and_their_drops_counted_with_an_example_of_each():
    drops = [sources.drop("mine", "s", *row) for row in (("f:1", "b", "x"), ("f:2", "a"), ("f:3", "b", "y"))]
    frame = pl.DataFrame({"n": [1]})
    read = sources.Read(frame, tables.DROPS.frame(drops), {"k": 2})
    both = sources.together([read, sources.Read(frame, tables.DROPS.empty, {"k": 1, "m": 0})], frame.schema)
    assert both.rows["n"].to_list() == [1, 1] and both.figures == {"k": 3, "m": 0}
    assert sources.reasons(both.drops) == {"a": 1, "b": 2}
    assert sources.examples(both.drops) == {"b": "f:1: x", "a": "f:2"}
    assert sources.together([], frame.schema).rows.equals(frame.clear())


def test_what_a_line_of_json_is_instead_of_an_object(tmp_path):
    array = ": write each of its objects on a line (`jq -c '.[]' FILE`)"
    for line, reason, detail in (
        (b"\xff", "not UTF-8", ""),
        (b'{"a": 1, "a": 2}', "key twice", "the key 'a' comes twice in one object"),
        (b"[1", "not JSON", f"expected an object on each line: an array begins here{array}"),
        (b"[1]", "not JSON", f"expected an object: found list{array}"),
        (b"7", "not JSON", "expected an object: found int"),
        (b'{"a": "\\ud83d"}', "lone surrogate", "half of a character: \\ud800-\\udfff without its partner"),
    ):
        left = sources.json_object(line)
        assert isinstance(left, Left) and (left.reason, left.detail) == (reason, detail)
    assert sources.json_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    path = file(tmp_path, "f.jsonl", b"\xef\xbb\xbf{}\r\n\n\xff\xfe\n \n{}")
    places, drops = sources.jsonl(path, "mine", "s", lambda place, _: [place])
    assert places == ["f.jsonl:1", "f.jsonl:5"] and [drop["place"] for drop in drops] == ["f.jsonl:3"]


def test_what_is_no_file_to_read_is_told(tmp_path):
    for path, told in ((tmp_path, "no file: expected"), (tmp_path / "none", "no such file: expected")):
        with pytest.raises(UsageError, match=told):
            sources.existing(path)
    for name, content, told in (
        ("a.xlsx", b"PK\x03\x04", r"a packed file \(zip\): save a spreadsheet"),
        ("a.gz", gzip.compress(b"0" * 40 * 2**20), "cut or no gzip file .it unpacks to more than 100 times its size"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=told), sources.opened(tmp_path / name) as file:
            assert sum(1 for _ in sources.lines(file)) >= 0
    (tmp_path / "ok.gz").write_bytes(gzip.compress(b"0" * 15 * 2**20))  # more than 100 times its size, yet small
    with sources.opened(tmp_path / "ok.gz") as file:
        assert len(file.read()) == 15 * 2**20
    (tmp_path / "a.json").write_text("[1")
    with pytest.raises(SourceError, match=r"a\.json: not a JSON file \(.+\): expected a list"):
        sources.json_file(tmp_path / "a.json", "a list")


MORE = "is a ',' not quoted?"
TABLES = {  # text -> what is wrong with it, or its rows and drops
    "": "no header line: .*found nothing",
    "A;c\n": "column 'b' is missing: expected a table with commas, semicolons or tabs and the columns a,b, found A;c$",
    "a,b,A\n": "two columns are called 'a': expected each once",
    "a,b,c\n1,2,3\n": (["1 2 "], [(1, "column not read", "c: expected one of d")]),
    "sep=|\na|B|d\n 1 | 2\n": (["1 2 "], []),
    "a,b\n1,2,3\n\n4\n": (["4  "], [(2, "too many fields", f"found 3, expected 2: {MORE}")]),
    "a;b;d\n;;\n\n1;2;\n": (["1 2 "], [(2, "empty row", "no cell holds anything")]),  # as spreadsheets write them
    'a,b,,\n1,2,,"x\ny"\n1,2,x\n': (  # two columns without a name, as a spreadsheet may leave them
        ["1 2 "],
        [(3, "a cell of two lines", "in a column without a name: is a quote not closed?")],
    ),
    # as Excel and LibreOffice save them: semicolons with a mark, a line that names the delimiter, Unicode text
    '\ufeffA;B;D\r\né;2;"x,\r\ny"\r\n': (["é 2 x,\r\ny"], []),
    'sep=;\r\na;b;d\r\né;2;"x,\r\ny"\r\n': (["é 2 x,\r\ny"], []),
    'A\tB\tD\r\né\t2\t"x,\r\ny"\r\n': (["é 2 x,\r\ny"], []),
    # a quote that nobody closes takes the lines after it; each is told, and those after a readable one are read
    'a,b\n1,2\n1,"open\n3,x\n': (["1 2 "], [(n, "not CSV", "unexpected end of data") for n in (3, 4)]),
    'a,b\n1,"open\n2,"x, y"\n3,z\n': (["3 z "], [(n, "not CSV", "',' expected after '\"'") for n in (2, 3)]),
    'a,b\n1,"two\nlines, ""quoted"""\n3,z\n': (['1 two\nlines, "quoted" ', "3 z "], []),
    f"a,b\n1,2\n3,{'x' * 1_100_000}\n5,6\n": (
        ["1 2 ", "5 6 "],
        [(3, "not CSV", "field larger than field limit (1000000)")],
    ),
}


@pytest.mark.parametrize("text", TABLES, ids=lambda text: repr(text[:30]))
@pytest.mark.parametrize("coding", ["utf-8", "utf-16"])
def test_a_table_is_read_by_its_columns(tmp_path, text, coding):
    path, expected = tmp_path / "t.csv", TABLES[text]
    path.write_text(text.removeprefix("\ufeff") if coding == "utf-16" else text, coding, newline="")
    read = partial(sources.csv_rows, path, "mine", "s", expected=["a", "b"], others=["d"])
    if isinstance(expected, str):
        with pytest.raises(SourceError, match=expected):
            read(lambda _, row: [row])
    else:
        rows, drops = read(lambda _, row: [" ".join(row.get(name, "") for name in "abd")])
        assert rows == expected[0]
        assert drops == [sources.drop("mine", "s", f"t.csv:{n}", *why) for n, *why in expected[1]]


def test_an_old_code_page_is_left_out_with_its_remedy(tmp_path):
    (tmp_path / "t.csv").write_bytes("a;b\né;2\n".encode("cp1252"))
    rows, drops = sources.csv_rows(tmp_path / "t.csv", "mine", "s", lambda _, row: [row], expected=["a", "b"])
    assert rows == [] and drops[0]["detail"] == "save the file as CSV in UTF-8, and read it again"


def test_a_table_of_many_columns_is_read_in_a_moment(tmp_path):
    """Each column was looked for among all: 13 seconds for 40,000, ten minutes for these."""
    path = file(tmp_path, "many.csv", "title," + ",".join(f"c{n}" for n in range(300_000)) + "\nFilm A\n")
    assert sources.csv_rows(path, "catalog", "csv", lambda _, row: [row["title"]], expected=["title"])[0] == ["Film A"]

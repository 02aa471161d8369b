"""Votes on warnings as CSV."""

from saferec_builder.sources import warnings_csv
from tests.worlds.catalog_files import VOTES, file

GOOD = (
    "Alien,1979.0,,film,Is there blood/gore,40.0,1,https://example.org/a,2024-01-01",
    ",,tt0078748,,Does the dog die,0,12,,",
    "Alien,,,,Is there blood/gore,,3,,",
)
LEFT_OUT = (  # and why
    (",,,film,Is there blood/gore,1,1,,", "no title"),
    ("Alien,1979,,film,,1,1,,", "no topic"),
    ("Alien,1979,,film,Is there blood/gore,0,,,", "no votes"),
    ("Alien,1979,,film,Is there blood/gore,many,1,,", "not a number"),
    ("Alien,1979,,film,Is there blood/gore,-1,1,,", "not a number"),
    ("Alien,1979,,opera,Is there blood/gore,1,1,,", "unknown domain"),
    ("Alien,79,,film,Is there blood/gore,1,1,,", "wrong year"),
    ("Alien,1979,nm5,film,Is there blood/gore,1,1,,", "bad imdb id"),
    (GOOD[0].replace(".0", ""), "same statement"),
)


def test_votes(tmp_path):
    text = VOTES + "\n".join((*GOOD, *(row for row, _ in LEFT_OUT)))
    result = warnings_csv.read(file(tmp_path, "votes.csv", text))
    assert result.rows.select("ref", "domain", "topic", "yes", "no", "url").rows() == [
        ("title:Alien (1979)", "film", "Is there blood/gore", 40, 1, "https://example.org/a"),
        ("imdb:tt0078748", None, "Does the dog die", 0, 12, None),
        ("title:Alien", None, "Is there blood/gore", 0, 3, None),
    ]
    assert result.drops["reason"].to_list() == [why for _, why in LEFT_OUT]


def test_a_date_that_a_spreadsheet_wrote_is_told(tmp_path):
    """It was no date: whatever was added last counted, and nothing said so."""
    days = ("31.05.2026", "2026-05-31", "")
    rows = "".join(f"tt1,Is there blood/gore,{n},1,{day}\n" for n, day in enumerate(days))
    result = warnings_csv.read(file(tmp_path, "votes.csv", f"imdb,topic,yes,no,retrieved\n{rows}"))
    (remark,) = result.drops.to_dicts()
    assert (remark["place"], remark["reason"]) == ("votes.csv:2", "date not read")
    assert "'99.99.9999'" in remark["detail"] and (result.rows.height, result.figures["rows_read"]) == (3, 3)

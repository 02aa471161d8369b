"""The readers of published item and warning files: a round trip each, and what is odd is counted, never guessed."""

import gzip
import json

import pytest

from saferec_builder.core.errors import SourceError
from saferec_builder.sources import (
    ddd,
    esrb,
    imdb_titles,
    items_csv,
    items_demo,
    movielens,
    parent_guide,
    redial_items,
    warnings_csv,
)
from tests.worlds.catalog_files import file, media

BASICS = "tconst\ttitleType\tprimaryTitle\toriginalTitle\tisAdult\tstartYear\tendYear\truntimeMinutes\tgenres\n"


def basics(*rows):
    return BASICS + "".join("\t".join(row) + "\n" for row in rows)


def title(tconst, kind, primary, original, year, genres="Drama"):
    return (tconst, kind, primary, original, "0", year, "\\N", "90", genres)


@pytest.mark.parametrize("zipped", [False, True])
def test_imdb_titles(tmp_path, zipped):
    text = (
        basics(
            title("tt0110877", "movie", "The Postman", "Il postino", "1994", "Comedy,Drama"),
            title("tt0903747", "tvSeries", "Breaking Bad", "Breaking Bad", "2008"),
            title("tt0959621", "tvEpisode", "Pilot", "Pilot", "2008"),
            title("tt0959622", "tvEpisode", "Cat", "Cat", "2008"),
            title("tt1", "movie", 'A "quoted', 'A "quoted', "\\N", "\\N"),
            title("tt0110877", "movie", "Again", "Again", "1999"),
            title("x", "movie", "No id", "No id", "1999"),
            title("tt0000005", "movie", "Odd year", "Odd year", "19x4"),
            ("tt0000006", "movie", "too few"),
        ).encode()
        + b"tt0000007\tmovie\tAm\xe9lie\tA\t0\t2001\t\\N\t9\tDrama\n"
    )
    path = file(tmp_path, "title.basics.tsv", gzip.compress(text) if zipped else b"\xef\xbb\xbf" + text)
    read = imdb_titles.read(path)
    assert read.rows.select("source_id", "domain", "title", "year", "refs", "aliases", "genres").rows() == [
        ("tt0110877", "film", "The Postman", 1994, ["imdb:tt0110877"], ["Il postino"], ["Comedy", "Drama"]),
        ("tt0903747", "series", "Breaking Bad", 2008, ["imdb:tt0903747"], [], ["Drama"]),
        ("tt0000001", "film", 'A "quoted', None, ["imdb:tt0000001"], [], []),
    ]
    assert sorted(read.drops.select("place", "reason", "detail").rows()) == [
        ("title.basics.tsv tvEpisode", "no film or series", "2 of tvEpisode"),
        ("title.basics.tsv:10", "wrong number of fields", "found 3, wanted 9 between tabs"),
        ("title.basics.tsv:11", "not UTF-8", ""),
        ("title.basics.tsv:7", "same id", "tt0110877"),
        ("title.basics.tsv:8", "bad imdb id", "found 'x', wanted tt and digits"),
        ("title.basics.tsv:9", "wrong year", "found '19x4', wanted four digits or nothing"),
    ]


def test_half_a_gzip_file_is_one_line(tmp_path):
    whole = gzip.compress(basics(*(title(f"tt{n}", "movie", f"Film {n}", "x", "1999") for n in range(1, 999))).encode())
    with pytest.raises(SourceError, match="ends in the middle"):
        imdb_titles.read(file(tmp_path, "half.tsv.gz", whole[: len(whole) // 2]))


ASKED = [name for name in esrb.ASKED if name not in ("blood", "strong_language", "no_descriptors")]
DESCRIBED = f"title,console,blood,strong_janguage,no_descriptors,esrb_rating,{','.join(ASKED)}\n"


def described(*rows):
    """Rows of the first six columns; of all other descriptors they have none."""
    return "".join(f"{row}{',0' * len(ASKED)}\n" for row in rows)


def test_esrb_descriptors_stay_with_their_platform(tmp_path):
    text = DESCRIBED + described(
        *("Doom,0,1,1,0,M", "DOOM™,1,0,1,0,M", "Chess,2,0,0,1,E", "Both,0,1,0,1,T", "Silent,0,0,0,0,T"),
        *("Odd,0,yes,0,0,T", "Odd,0,0,0,0,Q", ",0,1,0,0,T", "Doom,0,1,1,0,M"),
    )
    read = esrb.read(file(tmp_path, "esrb.csv", text))
    assert read.items.rows.select("source_id", "domain", "title", "year").rows()[:2] == [
        ("doom on 0", "game", "Doom", None),
        ("doom on 1", "game", "DOOM™", None),
    ]
    said = read.warnings.rows.filter(kind="esrb").select("ref", "topic").rows()
    assert said == [
        ("esrb:doom on 0", "blood"),
        ("esrb:doom on 0", "strong_language"),
        ("esrb:doom on 1", "strong_language"),
        ("esrb:chess on 2", "no_descriptors"),
        ("esrb:both on 0", "blood"),  # the table says both: what is named counts
    ]
    assert read.warnings.rows.filter(kind="rating")["topic"].to_list() == ["M", "M", "E", "T", "T"]
    assert read.items.drops["reason"].to_list() == ["no 0 or 1", "unknown rating", "no title", "same id"]


def test_a_table_that_does_not_ask_for_a_descriptor_cannot_say_that_a_game_has_none(tmp_path):
    row = described("Doom,0,0,1,0,M")
    with pytest.raises(SourceError, match=r"column 'blood_and_gore' is missing: .* wanted all 31 descriptors"):
        esrb.read(file(tmp_path, "short.csv", (DESCRIBED + row).replace(",blood_and_gore", ",gore")))
    # another spelling is the same descriptor
    spelt = DESCRIBED.replace(",blood_and_gore", ",Blood and Gore").replace(
        "title,console", "title,console,Real Gambling"
    )
    said = esrb.read(file(tmp_path, "spelt.csv", spelt + row.replace("Doom,0,", "Doom,0,1,"))).warnings.rows
    assert said.filter(kind="esrb")["topic"].to_list() == ["real_gambling", "strong_language"]


def test_esrb_certificates(tmp_path):
    text = 'certificate,game,esrb_rating,platform_name,company\n"1","Go","E10plus","Stadia, PC","X"\n"","A","E","",""\n'
    read = esrb.read(file(tmp_path, "esrb.csv", text))
    assert read.items.rows["source_id"].to_list() == ["1"]
    assert read.warnings.rows.select("kind", "topic").rows() == [("rating", "E10plus")]
    assert read.items.drops["reason"].to_list() == ["no id"]
    for text, found in (("a;b\n1;2\n", "a;b"), ('"' + "x" * 1_100_000, "nothing")):
        with pytest.raises(SourceError, match=f"wanted an ESRB table, found {found}$"):
            esrb.read(file(tmp_path, "other.csv", text))


def test_ddd_answers(tmp_path):
    alien = media(7, "Alien", imdb="tt0078748", stats=[("Does the dog die", 0, 12), ("Are there ghosts", 0, 0)])
    saved = {"retrieved": "2026-01-02", "ids": ["imdb:tt0113277"], "media": media(8, "Heat", "Unknown")}
    saved["media"]["topicItemStats"] = [
        {"yesSum": 3, "noSum": 1, "topic": {}},
        {"yesSum": 2, "noSum": 0, "doesName": "A"},
    ]
    book = media(9, "Alien", kind="Book")
    odd = {"item": {"id": 10, "name": "Odd"}, "topicItemStats": [{"yesSum": -1, "noSum": 0, "topic": {"name": "a"}}]}
    answers = [alien, saved, book, odd, {"absent": True}, alien]
    read = ddd.read(file(tmp_path, "d.json", json.dumps(answers)))
    assert read.items.rows.select("source_id", "title", "year", "refs", "domain").rows() == [
        ("7", "Alien", 1979, ["imdb:tt0078748"], "film"),
        ("8", "Heat", None, ["imdb:tt0113277"], "film"),
    ]
    assert read.warnings.rows.select("ref", "topic", "yes", "no", "url", "retrieved").rows() == [
        ("ddd:7", "Does the dog die", 0, 12, "https://www.doesthedogdie.com/media/7", None),
        ("ddd:8", "A", 2, 0, "https://www.doesthedogdie.com/media/8", "2026-01-02"),
    ]
    assert sorted(read.items.drops["reason"]) == ["no topic", "other kind", "same id", "wrong type"]
    # one answer alone, several as the search gives them, a folder of them
    for shape in (alien, [alien], {"items": [{**alien["item"], "topicItemStats": alien["topicItemStats"]}]}):
        (tmp_path / "one").mkdir(exist_ok=True)
        file(tmp_path / "one", "a.json", json.dumps(shape))
        assert ddd.read(tmp_path / "one").warnings.rows["yes"].to_list() == [0]
    with pytest.raises(SourceError, match="found int, wanted answers"):
        ddd.read(file(tmp_path, "d.json", "[1]"))


def test_an_answer_under_another_id_is_not_that_of_the_item_that_was_asked_for(tmp_path):
    """Two films "Emma" of 1996: the site has one of them, and what it says of it is nothing on the other."""
    emma = media(7, "Emma", "1996", "tt0116191", [("Does the dog die", 0, 50)])
    for ids, kept in ((["imdb:tt0118308", "tmdb:5"], []), (["imdb:tt0116191", "tmdb:5"], ["tmdb:5"])):
        read = ddd.read(file(tmp_path, "d.json", json.dumps({"retrieved": "2026-01-02", "ids": ids, "media": emma})))
        assert read.items.rows["refs"].to_list() == [["imdb:tt0116191", *kept]]


def test_ddd_clear_answers(tmp_path):
    text = (
        "imdbId,title,year,Clear Yes: Does the dog die,Clear No: Does the dog die,Clear Yes: Are there ghosts\n"
        "tt0078748,Alien,1979,1,0,0\n"
        "113277,Heat,1995,0,1,\n"
        ",Big,1988,,,True\n"
        ",Up,2009,0,0,0\n"  # "not clearly yes" is no "no"
        ",,1999,1,,\n"
    )
    read = ddd.read(file(tmp_path, "ml-ddd.csv", text))
    assert read.warnings.rows.select("ref", "topic", "answer").rows() == [
        ("imdb:tt0078748", "Does the dog die", "yes"),
        ("imdb:tt0113277", "Does the dog die", "no"),
        ("title:Big (1988)", "Are there ghosts", "yes"),
    ]
    assert read.items.drops["reason"].to_list() == ["no clear answer", "no title"]
    for columns in ("Clear Yes: A,Clear No: A", "Clear No: A,Clear Yes: A"):  # both: yes counts, for the last word does
        both = ddd.read(file(tmp_path, "both.csv", f"imdbId,{columns}\ntt1,1,1\n")).warnings.rows
        assert both["answer"].to_list() == ["no", "yes"]
    with pytest.raises(SourceError, match="no column such as 'Clear Yes"):
        ddd.read(file(tmp_path, "x.csv", "title,year\nAlien,1979\n"))


# ---- what every reader survives

READERS = {
    "movielens": (movielens.read, "movies.csv", "movieId,title,genres\n", '{n},"Film {n} (1999)",Drama\n'),
    "imdb": (imdb_titles.read, "b.tsv", BASICS, "tt{n}\tmovie\tFilm {n}\tFilm {n}\t0\t1999\t\\N\t9\tDrama\n"),
    "esrb": (esrb.read, "e.csv", DESCRIBED, described("Game {n},0,1,0,0,M")),
    "ddd": (ddd.read, "d.csv", "imdbId,Clear Yes: Does the dog die\n", "tt{n},1\n"),
    "csv": (items_csv.read, "o.csv", "domain,title,year\n", "film,Film {n},1999\n"),
    "demo": (items_demo.read, "d.jsonl", "", '{{"title":"Film {n}","year":1999,"domain":"film"}}\n'),
    "warnings": (warnings_csv.read, "w.csv", "imdb,topic,yes,no\n", "tt{n},Does the dog die,1,2\n"),
    "guide": (parent_guide.read, "g.csv", "imdb,violence\n", "tt{n},Mild\n"),
}


def parts(read):
    """(rows, drops) of a reader's answer, of both tables."""
    reads = [read.items, read.warnings] if hasattr(read, "items") else [read]
    return sum(r.rows.height for r in reads), [reason for r in reads for reason in r.drops["reason"]]


@pytest.mark.parametrize("name", READERS)
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path, name):
    reader, filename, header, row = READERS[name]
    plain = header + row.format(n=1) + row.format(n=2)
    rows, drops = parts(reader(file(tmp_path, filename, plain)))
    assert rows >= 2 and drops == []
    odd = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    assert parts(reader(file(tmp_path, filename, odd))) == (rows, [])


@pytest.mark.parametrize("name", READERS)
def test_the_same_row_twice_counts_once(tmp_path, name):
    reader, filename, header, row = READERS[name]
    rows, _ = parts(reader(file(tmp_path, filename, header + row.format(n=1))))
    twice, drops = parts(reader(file(tmp_path, filename, header + row.format(n=1) * 2)))
    assert twice == rows and set(drops) == {"same id"}


@pytest.mark.parametrize("name", [n for n in READERS if n != "demo"])
def test_a_wrong_delimiter_and_a_missing_column_are_one_line(tmp_path, name):
    reader, filename, header, row = READERS[name]
    for text in ((header + row.format(n=1)).replace(",", ";").replace("\t", ";"), "a,b\n1,2\n"):
        with pytest.raises(SourceError) as fault:
            reader(file(tmp_path, filename, text))
        assert "\n" not in str(fault.value) and filename in str(fault.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_line_of_a_hundred_megabytes_costs_one_row(tmp_path, name):
    reader, filename, header, row = READERS[name]
    path = tmp_path / filename
    with path.open("w") as out:
        out.write(header + row.format(n=1))
        for _ in range(100):
            out.write("x" * 2**20)
        out.write("\n" + row.format(n=2))
    rows, drops = parts(reader(path))
    assert rows == parts(reader(file(tmp_path, filename, header + row.format(n=1) + row.format(n=2))))[0]
    assert len(drops) == 1


def test_redial_ids_round_trip(tmp_path):
    rows = {
        "1": {"name": "Alien (1979)", "imdb_id": "tt0078748", "genre": ["horror"], "plot": "In space."},
        "2": {"name": 5},
    }
    read = redial_items.read(file(tmp_path, "id2info.json", json.dumps(rows)))
    assert read.rows.select("source_id", "title", "year", "refs", "genres", "plot").rows() == [
        ("1", "Alien", 1979, ["imdb:tt0078748"], ["horror"], "In space.")
    ]
    assert read.drops["reason"].to_list() == ["wrong type"]


@pytest.mark.slow
def test_the_published_esrb_tables(real_data):
    from saferec_builder import catalog
    from saferec_builder.sources import together
    from saferec_builder.storage.tables import CATALOG_ROWS

    tables = [
        esrb.read(real_data / "esrb" / name)
        for name in ("esrb_scraper_games_short.csv", "kaggle_video_games_esrb_rating.csv")
    ]
    assert [t.items.rows.height + t.items.drops.height for t in tables] == [30_226, 1_895]
    items, _ = catalog.merge(together((t.items for t in tables), CATALOG_ROWS.schema).rows)
    assert set(items["domain"]) == {"game"} and items["year"].null_count() == items.height
    # platforms are one game: Monopoly has eleven certificates
    assert items.filter(items["title"] == "Monopoly").height == 1
    assert 24_000 < items.height < 25_510

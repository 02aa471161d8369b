"""ESRB's descriptors and certificates of games."""

import pytest

from saferec_builder import catalog
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import esrb, together
from saferec_builder.storage.tables import CATALOG_ROWS
from tests.worlds.catalog_files import DESCRIBED, described, file


def test_esrb_descriptors_stay_with_their_platform(tmp_path):
    text = DESCRIBED + described(
        *("Doom,0,1,1,0,M", "DOOM™,1,0,1,0,M", "Chess,2,0,0,1,E", "Both,0,1,0,1,T", "Silent,0,0,0,0,T"),
        *("Odd,0,yes,0,0,T", "Odd,0,0,0,0,Q", ",0,1,0,0,T", "Doom,0,1,1,0,M"),
    )
    result = esrb.read(file(tmp_path, "esrb.csv", text))
    assert result.items.rows.select("source_id", "domain", "title", "year").rows()[:2] == [
        ("doom on 0", "game", "Doom", None),
        ("doom on 1", "game", "DOOM™", None),
    ]
    statements = result.warnings.rows.filter(kind="esrb").select("ref", "topic").rows()
    assert statements == [
        ("esrb:doom on 0", "blood"),
        ("esrb:doom on 0", "strong_language"),
        ("esrb:doom on 1", "strong_language"),
        ("esrb:chess on 2", "no_descriptors"),
        ("esrb:both on 0", "blood"),  # the table contradicts itself: the named descriptor counts
    ]
    assert result.warnings.rows.filter(kind="rating")["topic"].to_list() == ["M", "M", "E", "T", "T"]
    assert result.items.drops["reason"].to_list() == ["no 0 or 1", "unknown rating", "no title", "same id"]


def test_a_table_that_does_not_ask_for_a_descriptor_cannot_say_that_a_game_has_none(tmp_path):
    row = described("Doom,0,0,1,0,M")
    with pytest.raises(SourceError, match=r"column 'blood_and_gore' is missing: .* expected all 31 descriptors"):
        esrb.read(file(tmp_path, "short.csv", (DESCRIBED + row).replace(",blood_and_gore", ",gore")))
    # another spelling is the same descriptor
    spelt = DESCRIBED.replace(",blood_and_gore", ",Blood and Gore")
    spelt = spelt.replace("title,console", "title,console,Real Gambling")
    statements = esrb.read(file(tmp_path, "spelt.csv", spelt + row.replace("Doom,0,", "Doom,0,1,"))).warnings.rows
    assert statements.filter(kind="esrb")["topic"].to_list() == ["real_gambling", "strong_language"]


def test_esrb_certificates(tmp_path):
    text = 'certificate,game,esrb_rating,platform_name,company\n"1","Go","E10plus","Stadia, PC","X"\n"","A","E","",""\n'
    result = esrb.read(file(tmp_path, "esrb.csv", text))
    assert result.items.rows["source_id"].to_list() == ["1"]
    assert result.warnings.rows.select("kind", "topic").rows() == [("rating", "E10plus")]
    assert result.items.drops["reason"].to_list() == ["no id"]
    for text, columns in (("a;b\n1;2\n", "a,b"), ('"' + "x" * 1_100_000, "nothing")):
        with pytest.raises(SourceError, match=f"expected an ESRB table, found {columns}$"):
            esrb.read(file(tmp_path, "other.csv", text))


def test_a_game_whose_descriptors_its_rating_forbids_is_left_out(tmp_path):
    # in such rows two columns of the published table are swapped: their descriptors are unknown
    text = DESCRIBED + described("Kind,0,0,1,0,ET", "Teen,0,1,1,0,T", "Grown,0,1,1,0,M", "Milder,0,1,0,0,E10+")
    result = esrb.read(file(tmp_path, "esrb.csv", text))
    assert result.items.rows["title"].to_list() == ["Grown", "Milder"]
    assert set(result.items.drops["reason"]) == {"rating and descriptors disagree"} and result.warnings.rows.height == 5


@pytest.mark.slow
def test_the_published_esrb_tables(real_data):
    names = ("esrb_scraper_games_short.csv", "kaggle_video_games_esrb_rating.csv")
    tables = [esrb.read(real_data / "esrb" / name) for name in names]
    assert [t.items.rows.height + t.items.drops.height for t in tables] == [30_226, 1_895]
    assert [t.warnings.figures["rows_read"] for t in tables] == [30_226, 1_895]
    items, _ = catalog.merge(together((t.items for t in tables), CATALOG_ROWS.schema).rows)
    assert set(items["domain"]) == {"game"} and items["year"].null_count() == items.height
    # all platforms are one game: Monopoly has eleven certificates
    assert items.filter(items["title"] == "Monopoly").height == 1
    assert 24_000 < items.height < 25_510

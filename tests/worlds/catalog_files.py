"""Files of items and warnings as their publishers write them."""

from saferec_builder.sources import esrb


def file(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


VOTES = "title,year,imdb,domain,topic,yes,no,url,retrieved\n"


def media(number, name, year="1979", imdb=None, stats=(), kind="Movie"):
    return {
        "item": {"id": number, "name": name, "releaseYear": year, "imdbId": imdb, "itemType": {"name": kind}},
        "topicItemStats": [
            {"yesSum": yes, "noSum": no, "topic": {"name": "x", "doesName": topic}} for topic, yes, no in stats
        ],
    }


BASICS = "tconst\ttitleType\tprimaryTitle\toriginalTitle\tisAdult\tstartYear\tendYear\truntimeMinutes\tgenres\n"
ASKED = [name for name in esrb.ASKED if name not in ("blood", "strong_language", "no_descriptors")]
DESCRIBED = f"title,console,blood,strong_janguage,no_descriptors,esrb_rating,{','.join(ASKED)}\n"


def described(*rows):
    """Rows of the first six columns; all other descriptors are 0."""
    return "".join(f"{row}{',0' * len(ASKED)}\n" for row in rows)

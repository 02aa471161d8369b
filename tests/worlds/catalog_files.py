"""Files of items and warnings as their publishers write them."""


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

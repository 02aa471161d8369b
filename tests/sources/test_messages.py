"""Chat messages as JSON lines: the usual shapes, and every invalid one."""

from datetime import UTC, datetime

from exports import licences
from saferec_builder.sources import conversation_rows as conversations, messages
from saferec_builder.sources.readers import READERS
from tests.worlds.source_lines import jsonl, said


def read(tmp_path, *rows):
    return messages.read(jsonl(tmp_path / "chats.jsonl", *rows))


def test_a_whole_row(tmp_path):
    row = {  # a bad id costs its item alone: the conversation was dropped for it
        **{"id": "a1", "user": "u7", "domain": "film", "time": "2024-05-01T14:00:00+02:00"},
        "messages": [
            said("system", "Be kind."),
            said("user", "Something like Alien?", items=["Alien  (1979)"]),
            said("assistant", "The Thing (1982)", items=["imdb:tt84787", "imdb:nm5", "Alien (1979)"]),
        ],
        "accepted": ["imdb:tt0084787", "imdb:none"],
        "seen": ["Aliens (1986)", "Untitled"],
    }
    result = read(tmp_path, row)
    talk = result.rows.row(0, named=True)
    assert [turn["role"] for turn in talk["turns"]] == ["seeker", "recommender"]
    assert talk["turns"][1]["items"] == ["imdb:tt0084787", "title:Alien (1979)"]
    assert talk["recommended"] == ["imdb:tt0084787"]  # the seeker named Alien first
    assert talk["accepted"] == ["imdb:tt0084787"]
    assert talk["seen"] == ["title:Alien (1979)", "title:Aliens (1986)", "title:Untitled"]  # a title may lack a year
    assert (talk["source_id"], talk["seeker"], talk["domain"]) == ("a1", "u7", "film")
    assert talk["time"] == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert read(tmp_path, row | {"time": "2024-05-01T12:00:00"}).rows["time"][0] == talk["time"]  # without a zone: UTC
    assert result.figures == {"bad_item_ids_left_out": 2, "system_messages_left_out": 1}
    assert result.rows.schema == conversations.SCHEMA


def test_openai_messages_without_an_id_are_named_by_what_they_say(tmp_path):
    plain = {"messages": [said("user", "A film, please"), said("assistant", "Heat (1995)")]}
    parts = {"messages": [said("user", [{"type": "text", "text": "A film, please"}]), said("assistant", "Heat (1995)")]}
    game = {"messages": [said("user", "A game, please"), said("assistant", None), said("tool", "x")]}
    result = read(tmp_path, plain, parts, game)
    ids = result.rows["source_id"].to_list()
    assert ids[0] == ids[1] != ids[2]
    assert result.rows["seeker"].to_list() == [None] * 3
    assert result.figures == {"empty_messages_left_out": 1, "tool_messages_left_out": 1}


def test_a_blank_user_or_id_is_none(tmp_path):
    """All rows with an empty cell would be one person, of whom a release keeps only the latest split, or one row."""
    rows = [{"messages": [said("user", f"film {user}")], "user": user} for user in ("", " ", " u7 ", 7)]
    assert read(tmp_path, *rows).rows["seeker"].to_list() == [None, None, "u7", "7"]
    rows = [{"messages": [said("user", text)], "id": name} for text, name in (("a", ""), ("b", " "), ("c", None))]
    bare = [{"messages": row["messages"]} for row in rows]
    ids = read(tmp_path, *rows).rows["source_id"].to_list()
    assert ids == read(tmp_path, *bare).rows["source_id"].to_list() and len(set(ids)) == 3


def test_a_field_that_is_null_or_a_blank_time_is_none(tmp_path):
    """Tables that are saved as JSON lines write null where a row lacks a field: each such row was dropped."""
    names = ("id", "user", "time", "domain", "accepted", "seen")
    bare = {"messages": [said("user", "hi")]}
    null = {"messages": [said("user", "hi", items=None)]} | dict.fromkeys(names)
    result = read(tmp_path, bare, null, bare | {"time": " "})
    assert result.drops.is_empty() and result.rows.drop("place").unique().height == 1


def test_a_domain_is_one_that_items_have_and_never_what_somebody_said(tmp_path):
    """For a request of the domain "movie" the baselines of an evaluation found no film, so each answer was empty."""
    domains = ["film", " Game ", "", "movie", "my son Ethan was hurt"]
    result = read(tmp_path, *({"messages": [said("user", f"hi {n}")], "domain": w} for n, w in enumerate(domains)))
    assert result.rows["domain"].to_list() == ["film", "game", None]
    assert result.drops.select("reason", "detail").rows() == [
        ("wrong domain", f"found {n} characters, expected one of film, series, game, book, or nothing") for n in (5, 21)
    ]


HI = [said("user", "hi")]
LEFT_OUT = (  # and why
    ('{"messages": [', "not JSON"),
    ({"id": "no messages"}, "wrong type"),
    ({"messages": "hello"}, "wrong type"),
    ({"messages": [said("robot", "hi")]}, "wrong type"),
    ({"messages": [said("user", 5)]}, "wrong type"),
    ({"messages": HI, "time": "yesterday"}, "wrong time"),
    ({"messages": HI, "time": 5}, "wrong type"),
    ({"messages": HI, "seen": "Alien (1979)"}, "wrong type"),
    ({"id": True, "messages": []}, "wrong type"),
    ('{"messages": [{"role": "user", "content": "\\ud83d"}]}', "lone surrogate"),
)


def test_what_is_no_conversation_is_left_out_with_its_reason(tmp_path):
    emoji = '{"messages": [{"role": "user", "content": "\\ud83d\\ude00"}]}'
    result = read(tmp_path, *(row for row, _ in LEFT_OUT), emoji)
    places = [(f"chats.jsonl:{n}", reason) for n, (_, reason) in enumerate(LEFT_OUT, 1)]
    assert result.drops.select("place", "reason").rows() == places
    assert result.rows["turns"].to_list() == [[{"role": "seeker", "text": "😀", "items": []}]]  # both halves make one


def test_a_drop_never_quotes_what_somebody_said(tmp_path):
    result = read(tmp_path, {"messages": [said("user", "hi")], "seen": "my address is 5 Elm Street"})
    assert "Elm" not in result.drops["detail"][0]
    odd = [said("user", "hi", items=["imdb:5 Elm Street"])], [{"my name is Elm": 1}]
    assert not read(tmp_path, *({"messages": message} for message in odd)).drops["detail"].str.contains("Elm").any()
    # nor if `--column time=text` uses it as a time
    times = ("5 Elm Street, 212-555-0187", "05/01/2024 9 am", "y" * 60)
    details = read(tmp_path, *({"messages": HI, "time": text} for text in times)).drops["detail"]
    assert details[2].startswith(f"found something like '{'x' * 40}' (x: a letter, 9: a digit), expected")
    assert not details.str.contains("Elm|0187").any() and details[:2].str.contains("9 xxx xxxxxx|99/99/9999 9 xx").all()


def test_words_under_another_name_than_content_are_no_empty_messages(tmp_path):
    """Every row was dropped as "no seeker text", and no message named the expected field."""
    call = {"role": "assistant", "tool_calls": [{"id": "a"}]}
    result = read(tmp_path, {"messages": [{"role": "user", "text": "hi"}]}, {"messages": [said("user", "hi"), call]})
    assert result.drops["detail"].to_list() == ["messages.0.content is missing, found role, text"]
    assert result.rows.height == 1  # a tool call has no words


def test_no_depth_of_brackets_stops_a_run(tmp_path):
    # some depths can be read but not written again: at 993 this was a traceback
    deep = (f'{{"id": "\\u0041", "deep": {"[" * n}{"]" * n}}}' for n in range(800, 1010))
    assert set(read(tmp_path, *deep).drops["reason"]) == {"wrong type", "not JSON"}


def test_a_row_of_messages_is_of_opendialkg(tmp_path):
    row = {"id": "train-0", "messages": [said("user", "Like Home Alone?"), said("assistant", "Ferris Bueller")]}
    result = READERS[conversations.Source.opendialkg](jsonl(tmp_path / "conversations.jsonl", row, {"id": "x"}))
    assert result.rows.select("source", "source_id").rows() == [("opendialkg", "train-0")]
    assert result.drops["source"].to_list() == ["opendialkg"]
    assert licences.of("opendialkg")["share"] == "text" and "NC" in licences.of("opendialkg")["licence"]

"""`mine`: every row is counted, no name is stored, nothing is lost, in any order of files and runs."""

import gzip
import json
from collections import Counter

import polars as pl
import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.mining import ingest, language, withheld
from saferec_builder.storage import migrations, tables, workspace as store
from saferec_builder.storage.workspace import make
from tests.worlds.reddit_dump import comment, submission, write
from tests.worlds.source_lines import chat


def test_the_command_counts_every_row_and_a_rerun_adds_nothing(cli, workspace, tmp_path):
    path = tmp_path / "chats.jsonl"
    rows = [chat("a", "hi", "Heat (1995)"), chat("b", ""), "{", chat("a", "hi Heat"), chat("c", "yo")]
    path.write_text("\n".join(rows))
    first = cli("mine", "messages", path, "-C", workspace.root, "--json")
    assert first.code == 0, first.err
    expected = {"command": "mine", "in": 5, "out": 2, "added": 2, "skipped": 0}
    expected["dropped"] = {"no seeker text": 1, "not JSON": 1, "same id": 1}
    assert {k: first.json[k] for k in expected} == expected
    assert (first.json["turns"], first.json["seekers"], first.json["empty_messages_left_out"]) == (3, 1, 1)
    tables_before = [store.read(workspace, t) for t in (tables.CONVERSATIONS, tables.DROPS)]
    rerun = cli("mine", "messages", path, "-C", workspace.root, "--json").json
    assert (rerun["in"], rerun["added"], rerun["skipped"], rerun["dropped"]) == (5, 0, 2, first.json["dropped"])
    tables_after = [store.read(workspace, t) for t in (tables.CONVERSATIONS, tables.DROPS)]
    assert all(a.equals(b) for a, b in zip(tables_before, tables_after, strict=True))
    places = [(f"chats.jsonl:{n}", reason) for n, reason in enumerate(("no seeker text", "not JSON", "same id"), 2)]
    assert tables_after[1].select("place", "reason").rows() == places


def test_a_demo_whose_key_everybody_has_takes_no_posts_of_people(cli, demo_workspace, tmp_path):
    """Whoever has the program could find the authors of a Reddit dump by their pseudonyms."""
    path = write(tmp_path / "all.ndjson", [submission(1, selftext="I am looking for a film")])
    result = cli("mine", "reddit", path, "-C", demo_workspace.root)
    assert result.code == 1 and "the key of its pseudonyms is public (`saferec-build init` makes" in result.err
    assert store.read(demo_workspace, tables.CONVERSATIONS).is_empty()


@pytest.mark.slow
def test_a_kill_while_it_saves_shows_nobody_who_is_in_distress(cli, workspace, tmp_path, monkeypatch):
    """Marks and origins are stored before the text: without its mark, models and people would read it."""
    path = tmp_path / "chats.jsonl"
    path.write_text(chat("a", "I want to kill myself") + "\n" + chat("b", "A quiet film, no blood please"))
    append = store.append

    def killed(ws, table, frame):
        added = append(ws, table, frame)
        if table is tables.CONVERSATIONS:
            raise KeyboardInterrupt
        return added

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", killed)
        assert cli("mine", "messages", path, "-C", workspace.root).code == 130
    assert store.read(workspace, tables.CONVERSATIONS).height == 2
    assert cli("propose", "-C", workspace.root, "--json").json["withheld"] == 1


@pytest.mark.slow
def test_a_mark_of_distress_that_a_version_of_the_rule_misses_comes_back(cli, workspace, tmp_path, monkeypatch):
    """An equal row existed, so none was added: the row of the rule that missed it stayed last, and people read it."""
    path = tmp_path / "chats.jsonl"
    path.write_text(chat("a", "I am looking for a film. I want to kill myself"))
    counts, crisis = [], language.crisis
    for rule in (crisis, lambda text: False, crisis, crisis, lambda text: False):
        monkeypatch.setattr(language, "crisis", rule)
        assert cli("mine", "messages", path, "-C", workspace.root).code == 0
        counts.append(len(withheld.reasons(workspace, store.read(workspace, tables.CONVERSATIONS))))
    assert counts == [1, 0, 1, 1, 0]
    assert store.read(workspace, tables.MARKS)["revision"].to_list() == [0, 1, 2, 3]


def test_a_mark_comes_back_in_a_workspace_of_before_marks_were_numbered(workspace):
    def marks(*crises):
        rows = [("c", "d", n, "en", 1.0, crisis, 0) for n, crisis in enumerate(crises)]
        return tables.MARKS.frame([dict(zip(tables.MARKS.columns, row, strict=True)) for row in rows])

    (number,) = migrations.bulk("marks", 2)
    for former, latter in ((True, False), (False, True)):
        numbered = (number(marks(crisis).drop("revision")) for crisis in (former, latter))
        stored = pl.concat(frame.select(marks().columns) for frame in numbered)
        assert stored["revision"].n_unique() == 2  # each has its own key
        (mark,) = withheld.new_marks(marks(former).drop("revision"), stored).to_dicts()
        assert (mark["crisis"], mark["revision"]) == (former, 2)
        assert withheld.new_marks(marks(latter).drop("revision"), stored).is_empty()


FILM, COARSE, FINE = ("A film?", "Heat (1995)"), chat("a", "hi there you"), chat("a", "hi", "there", "you")
LIKE, LOVE = chat("a", "I like it"), chat("a", "I love it")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "counts", "turns"),
    [  # added, kept_with_former_facts, kept_with_later_words
        # `accepted` was missing at first: the same words are the same revision, whose first row counts
        ([chat("a", *FILM)] * 2 + [chat("a", *FILM, accepted=FILM[1:])], [(1, 0, 0), (0, 0, 0), (0, 1, 0)], [2]),
        # an older export and a text that changed back look alike: the program treated both as already stored
        ([LIKE, LOVE, LIKE, LOVE], [(1, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)], [1, 1]),
        ([COARSE, FINE, COARSE, FINE], [(1, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)], [1, 3]),
    ],
)
def test_what_comes_again_with_other_facts_or_words_is_counted(cli, workspace, tmp_path, files, counts, turns):
    names, results = ("added", "kept_with_former_facts", "kept_with_later_words"), []
    for text in files:
        (tmp_path / "chats.jsonl").write_text(text)
        summary = cli("mine", "messages", tmp_path / "chats.jsonl", "-C", workspace.root, "--json").json
        results.append(tuple(summary.get(name, 0) for name in names))
        assert ("deleted and all are mined again" in summary.get("next", "")) == any(results[-1][1:])
    assert results == counts
    stored = store.read(workspace, tables.CONVERSATIONS)
    assert stored["turns"].list.len().to_list() == turns and stored["accepted"].list.len().sum() == 0


def test_languages_that_are_as_frequent_stand_in_the_order_of_their_names():
    """Each conversation is counted: 97 of 6,337 were in none of the languages that were named."""
    counts = Counter({"sv": 1, "de": 1, "en": 3, "nl": 1, "fr": 1, "uk": 1, "vi": 1})
    tally = ingest._Tally(kept=12, languages=counts)
    languages = tally.counts(tally.summary(), {}).figures["languages"]
    top = [("en", 3), ("de", 1), ("fr", 1), ("nl", 1), ("sv", 1)]
    assert list(languages.items()) == [*top, ("other", 2), ("unknown", 3)]


def test_which_of_two_copies_in_another_language_is_dropped_does_not_hang_on_the_order(cli, tmp_path):
    line = chat("a", "Ich suche einen ruhigen Film ohne Blut für heute Abend")
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(line)
    drops = []
    for n, order in enumerate((("one", "two"), ("two", "one"))):
        make(tmp_path / f"ws{n}", demo=False)
        toml = tmp_path / f"ws{n}" / "saferec.toml"
        toml.write_text(toml.read_text().replace("# languages", "languages"))
        paths = [tmp_path / f"{name}.jsonl" for name in order]
        assert cli("mine", "messages", *paths, "-C", toml.parent).code == 1  # nothing is left
        drops.append(store.read(store.Workspace.open(toml.parent), tables.DROPS).select("place", "reason").rows())
    assert drops[0] == drops[1] == [("one.jsonl:1", "other language"), ("two.jsonl:1", "same id")]


@pytest.mark.slow
def test_who_answers_in_redial_can_be_removed_as_who_asks(cli, workspace, tmp_path):
    """Worker 8 recommends in both dialogues, worker 9 asks in one: each may have their own turns removed."""
    path = tmp_path / "redial.jsonl"
    rows = [
        {"conversationId": name, "initiatorWorkerId": worker, "respondentWorkerId": 8}
        | {"messages": [{"text": "hi", "senderWorkerId": worker}, {"text": "my son Ethan", "senderWorkerId": 8}]}
        for name, worker in (("a", 7), ("b", 9))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    wishes = workspace.root / "removals.csv"

    def withheld_count():
        return cli("propose", "-C", workspace.root, "--json").json.get("withheld", 0)

    command = ("mine", "redial", path, "-C", workspace.root, "--json")
    assert cli(*command).json["added"] == 2 and withheld_count() == 0
    for worker, count in ((9, 1), (8, 2)):
        wishes.write_text(f"source,source_id,author\nredial,,{worker}\n")
        assert withheld_count() == count  # of the conversations mined before
        assert cli(*command).json["dropped"] == {"removed on request": count}
    assert set(store.read(workspace, tables.ORIGINS)["author"].str.len_chars()) == {16}  # pseudonyms


def test_no_name_of_a_person_reaches_the_disk(cli, workspace, tmp_path):
    path = tmp_path / "chats.jsonl"
    path.write_text(chat("a", "hi"))
    cli("mine", "messages", path, "-C", workspace.root)
    frame = store.read(workspace, tables.CONVERSATIONS)
    assert "example.org" not in json.dumps(frame.to_dicts(), default=str)
    files = [p for p in workspace.root.rglob("*") if p.is_file() and p.name != "saferec.toml"]
    assert all(b"example.org" not in p.read_bytes() for p in files)


def test_a_title_that_the_row_itself_names_is_no_name_of_a_person(cli, workspace, tmp_path):
    """Without a catalog "Thanks, Limbo it is." became "Thanks, [name] it is."; other rows say nothing of this one."""
    said = ("How about Limbo or Emma?", "Thanks, Limbo it is. My sister Emma agrees.")
    rows = [chat("a", *said, accepted=["Limbo (2010)"], recommended=["Emma"]), chat("b", *said)]
    (tmp_path / "chats.jsonl").write_text("\n".join(rows))
    cli("mine", "messages", tmp_path / "chats.jsonl", "-C", workspace.root)
    named = {
        row["source_id"]: [turn["text"] for turn in row["turns"]]
        for row in store.read(workspace, tables.CONVERSATIONS).to_dicts()
    }
    # Emma is the sister, too: a given name that is found in a conversation is masked in all of it
    assert named["a"] == ["How about Limbo or [name]?", "Thanks, Limbo it is. My sister [name] agrees."]
    assert named["b"] == ["How about [name] or [name]?", "Thanks, [name] it is. My sister [name] agrees."]


def test_mistakes_are_one_line_and_change_nothing(cli, workspace, tmp_path):
    path = tmp_path / "good.jsonl"
    path.write_text(chat("a", "hi"))
    (tmp_path / "bare").mkdir()
    for words, code, message in (
        (("messages", path, tmp_path / "none.jsonl"), 1, "no such file"),
        (("messages", tmp_path / "bare"), 1, "no .jsonl or .jsonl.gz file"),
        (("diary", path), 1, "mine diary: no such source: expected one of reddit, redial, "),
        (("redail", path), 1, "did you mean redial?"),
        (("messages", path, "--engine", "rey"), 1, "engine rey: did you mean ray?"),
        (("messages",), 2, "PATH"),
    ):
        result = cli("mine", *words, "-C", workspace.root)
        assert (result.code, message in result.err) == (code, True), result.err
        assert code == 2 or result.err.count("\n") == 1
    assert store.read(workspace, tables.CONVERSATIONS).is_empty()


def test_one_row_of_each_reason_is_shown_so_that_the_file_can_be_mended(cli, workspace, tmp_path):
    path = tmp_path / "own.jsonl"
    lines = ('{"turns": [], "asker": "u1"}', "hello", '{"turns": []}')
    path.write_text("\n".join((*lines, '{"messages": [{"role": "bot", "content": "x"}]}')))
    output = cli("mine", "messages", path, "-C", workspace.root).out
    assert "dropped, wrong type: 3, such as own.jsonl:1: messages is missing, found turns, asker\n" in output
    assert "dropped, not JSON: 1, such as own.jsonl:2: expected an object on each line: Expecting value" in output


def test_a_folder_stands_for_its_files_and_an_empty_file_is_no_fault(cli, workspace, tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "a.jsonl").write_text(chat("a", "hi"))
    (folder / "b.jsonl").write_text("")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(chat("c", "a film?").encode()))
    (folder / "readme.txt").write_text("not a dump")
    (folder / "2025").mkdir()
    summary = cli("mine", "messages", folder, folder / "a.jsonl", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["added"]) == (2, 2)  # a.jsonl is named twice and read once
    assert summary["passed_by"] == [str(folder / "2025"), str(folder / "readme.txt")]  # reported: else all seemed read
    assert summary["files_without_a_row"] == [str(folder / "b.jsonl")]


@pytest.mark.slow
def test_files_without_any_row_are_a_fault(cli, workspace, tmp_path):
    """A wrong path or a broken download once ended with exit code 0 and "next: read conversations"."""
    empty = tmp_path / "e.jsonl"
    empty.write_text("")
    for source in ("messages", "saferec", "reddit"):
        result = cli("mine", source, empty, "-C", workspace.root)
        assert result.code == 1 and f"error: mine {source}: no row in {empty}: expected conversations" in result.err
        assert ingest.mine(workspace, source, empty).fault in result.err  # in Python it is a field, as for other files


@pytest.mark.slow
def test_reddit_with_a_catalog_in_a_folder_of_any_name(cli, tmp_path):
    """Polars reads `[1]` in a path as "1": with a catalog, this ended in a traceback."""
    root, items, dump = tmp_path / "team[1]", tmp_path / "items.csv", tmp_path / "RS_2022-08.ndjson"
    items.write_text("source_id,title,year,domain\ni1,Alien,1979,film\n")
    request = submission(1, title="Looking for a film like Alien (1979)", selftext="Which one?")
    reply = comment(1, "s1", body="Alien (1979) again!")
    write(dump, [request, reply])
    assert cli("init", root).code == cli("catalog", "add", "csv", items, "-C", root).code == 0
    result = cli("mine", "reddit", dump, "-C", root, "--json")
    assert (result.code, result.json["added"]) == (0, 1), result.err


@pytest.mark.slow
def test_what_of_which_file_was_left_out_is_told_in_python_too(workspace, tmp_path):
    """The drops of the second file of a name were listed under the first, which hid that nothing of it was taken."""
    valid, broken = tmp_path / "2023" / "chats.jsonl", tmp_path / "2024" / "chats.jsonl"
    for path, text in ((valid, chat("a", "A film?", "Heat") + "\n{"), (broken, "{\n{")):
        path.parent.mkdir()
        path.write_text(text)
    result = ingest.mine(workspace, "messages", [valid, str(broken)])
    assert (result.counts.added, result.counts.dropped) == (1, {"not JSON": 3})
    left_out = [("2023/chats.jsonl", "not JSON", 1), ("2024/chats.jsonl", "not JSON", 2)]
    assert result.drops.select("file", "reason", "rows").rows() == left_out
    assert result.drops["example"][1].startswith("2024/chats.jsonl:1: ")
    assert "nothing of 2024/chats.jsonl was taken: 2 of 2 rows" in result.fault
    broken.write_text("{\n{\n" + chat("b", "A game?"))
    assert ingest.mine(workspace, "messages", [valid, broken]).fault is None
    places = ["2023/chats.jsonl:2", "2024/chats.jsonl:1", "2024/chats.jsonl:2"]
    assert store.read(workspace, tables.DROPS)["place"].sort().to_list() == places
    mined = store.read(workspace, tables.CONVERSATIONS)
    assert mined["source_file"].to_list() == ["chats.jsonl"] * 2  # a manifest names no folder
    for blank in ("", "\n"):  # as `json.dump` writes it, and as people do
        broken.write_text(f"[{blank}{chat('a', 'A film?')}{blank}]")
        assert "write each of its objects on a line" in str(ingest.mine(workspace, "messages", broken).fault)


def test_an_option_that_the_source_would_ignore_is_refused(workspace, tmp_path):
    """`mine messages --split test` mined every split."""
    (tmp_path / "chats.jsonl").write_text(chat("a", "A film?"))
    given = [("messages", {"split": "train"}), ("reddit", {"split": "test"}), ("hf", {"workers": 2})]
    for source, option in (*given, ("redial", {"engine": "ray"})):
        with pytest.raises(UsageError, match=f"mine {source}: .*--{next(iter(option))}.* for `mine (hf|reddit)`"):
            ingest.mine(workspace, source, tmp_path / "chats.jsonl", **option)
    with pytest.raises(UsageError, match="OURS"):
        ingest.mine(workspace, "hf", tmp_path / "chats.jsonl", columns={"talk": "dialog"})
    assert store.read(workspace, tables.CONVERSATIONS).is_empty()

"""The table of a comparison: no wider than a terminal, and each figure with the number of users behind it."""

import pytest

from saferec_builder.scoring.mentions import Beside
from saferec_builder.scoring.metrics import Listed
from training.evaluation import report_table
from training.evaluation.evaluate import run, score
from training.evaluation.report_table import show, summary

FIRST = ("recall", "recall_without")  # columns of the first table


def test_the_table_says_over_how_many_people_each_figure_is_a_mean(release, rows):
    """The svr of 1 of 2 users used to stand beside `users 2`; a difference from -1 to -.5 read `-1.000--0.500`."""
    entry = run("a", score({"u7": list("adje"), "u8": []}, rows, release))
    answers, safety, form = (block.splitlines() for block in show([entry], 4).split("\n\n"))
    # u7 has a sensitivity, u8 has none: safety is of u7 alone, recall_without of u8
    assert answers.pop(0).startswith("fewer than 6 users") and answers.pop(0) == "all users, n = 2"
    assert answers[0].split()[4:] == ["recall", "recall_without", "recall_raw", "ndcg"]
    assert safety.pop() == "  a: 2.0"  # one line for each system whose lists are short
    assert safety.pop().startswith("lists with fewer than 4 items")
    assert [block[-1].split() for block in (answers, safety, form)] == [
        ["users", "2", "1", "2", "2"],
        ["users", "1", "1", "1"],
        ["users", "2", "2", "2", "2"],
    ]
    assert "0.000..1.000" in safety[2]  # svr: one of four items, of one user
    assert (form[0].split()[4:], form[1].split()) == (
        ["not_in_catalog", "duplicate", "invalid", "length"],
        ["a", "0.000", "0.000", "0.500", "2.000"],
    )


def test_a_length_that_cannot_vary_has_no_interval(release, rows):
    """Lists of ten items each had a length of 10.000 with 7.354..10.000 below it, which read as noise."""
    every, some = (score({"u7": list("adje"), "u8": last}, rows, release) for last in (list("cfde"), list("cfd")))
    form = show([run("a", every), run("b", some)], 4).split("\n\n")[2].splitlines()
    assert form[2].endswith("  in every list") and form[4].split()[-1].startswith("0.")  # of two users
    # lists of two items each had 2.000 with .956..6.175 below it
    short = score({"u7": list("ad"), "u8": list("cf")}, rows, release)
    length = short["metrics"]["length"]
    assert (length["mean"], length["low"], length["high"]) == (2, None, None)
    assert show([run("a", short)], 4).split("\n\n")[2].splitlines()[2].endswith("  in every list")
    # a difference of two such systems was 0.000 with -0.660..0.660 below it
    lists = {"u7": list("adje"), "u8": list("cfde")}
    for second, same in ((lists, True), (lists | {"u8": list("cfd")}, False)):
        compared = run("b", score(second, rows, release, against=lists), "a")
        differences = show([run("a", every), compared], 4).split("difference to a")[1].splitlines()
        assert differences[-2].endswith("  in every list") == same


def test_shorter_lists_are_not_praised_for_their_svr(release, rows):
    """svr is divided by k: refusals looked like safety, `difference -0.183`, and no note said so."""
    long, short = {"u7": list("adje"), "u8": list("cfde")}, {"u7": list("a"), "u8": list("cfde")}
    runs = [run(n, score(lists, rows, release)) for n, lists in (("long", long), ("short", short))]
    note = (
        "lists with fewer than 4 items on average: svr and svr_upper are divided by 4, so compare equal lengths only\n"
    )
    assert f"{note}  short: 2.5\n" in show(runs, 4)
    # nor is it safer than the guard: two titles of ten had an svr_upper of .075, the guard .138
    mine, guard = run("mine", score(short, rows, release)), run("guard", score(long, rows, release))
    mine["to_guard"] = {"main": score(short, rows, release, against=long)["difference"]}
    text, note = show([mine, guard], 4), f"{note}  mine: 2.5\n"
    assert "svr_upper" in text.split(note)[0] and text.count(note) == 1  # below the figures that it is about
    assert "divided by" not in show([runs[0], guard], 4)
    # over all users 3.5 counts as equal to 4, and of a slice 3 does not; the note stood below each table
    sliced = [*rows, *(row | {"conversation": f"{row['conversation']}-s", "slice": "s"} for row in rows)]
    lists = {row["conversation"]: list("cfd" if row.get("slice") else "cfde") for row in sliced}
    text = show([run("rare", score(lists, sliced, release))], 4)
    assert text.count("divided by") == 1 and "\n  rare: 3.0 (slice=s)\n" in text
    assert "mentioned_unsafe" not in text  # lists have no text that could mention anything


@pytest.mark.slow
def test_all_users_come_first_and_each_part_says_of_how_many_it_is(release, rows):
    """The first and largest table was of two users of no slice; those of 21 users and of 1 stood below without n."""
    many = [row | {"conversation": f"{row['conversation']}-{n}"} for n in range(8) for row in rows]
    many = [row | {"slice": "written"} if n > 1 else row for n, row in enumerate(many)]
    answers = {row["conversation"]: list("adje" if row.get("slice") else "adcb") for row in many}
    first = run("a", score(answers, many, release, against=answers), "b")
    second = run("b", score(answers, many, release))
    first["to_guard"] = {"everyone": first["everyone"]["difference"], "main": first["difference"]}
    table = show([first, second], 4)
    heads = [line for line in table.splitlines() if ", n = " in line]
    parts = ["all users, n = 16", "users of no slice, n = 2", "slice=written, n = 14"]
    assert heads == [*parts, *(f"difference to the guard, user by user: {part}" for part in parts[:2])]
    assert table.split("\n", 1)[1].startswith(parts[0]) and first["n"] == 2 and first["everyone"]["n"] == 16
    assert first["everyone"]["difference"]["recall@4"]["n"] == 16
    # what docs/metrics.md says of report.json: the first table has the figures of `everyone`
    for text in (table, summary([first, second], 4)):
        printed = next(line for line in text.splitlines() if line.startswith("a ")).split()
        assert printed[1:3] == [f"{first['everyone']['metrics'][f'{name}@4']['mean']:.3f}" for name in FIRST]
    assert "everyone" not in score(answers, [row | {"slice": None} for row in many], release)


def test_it_says_once_what_is_of_too_few_users(release, rows):
    answers = {f"{name}-{n}": list("adje") for name in ("u7", "u8") for n in range(6)}
    many = [row | {"conversation": f"{row['conversation']}-{n}"} for n in range(6) for row in rows]
    # all of five users are further to one side by chance in 2 * .5^5 = .0625 of cases, all of six in .03125
    note = "too few for any conclusion: "
    assert note not in show([run("a", score(answers, many, release))], 4)
    table = show([run("a", score(answers, many[1:], release))], 4)
    assert table.count(note) == 1 and "svr of all users (5), svr_upper of all users (5)" in table
    few = show([run("a", score(answers, many[:2], release))], 4)
    assert few.startswith(f"fewer than 6 users, {note}all users (2)\n")  # before any figure


def test_a_guard_that_learned_from_little_is_named(release, rows):
    """On a tiny release the guard heard nothing, and its row stood among the others as a bar to reach."""
    guard = run("guard", score({"u7": list("abcd"), "u8": list("cf")}, rows, release))
    texts = {traits: show([guard | {"learned_from": traits}], 4) for traits in (0, 49, 50)}
    assert "guard: it learned from 49 traits of training requests, too few (under 50)" in texts[49]
    assert "learned from 0" in texts[0] and "learned" not in texts[50] + show([guard], 4)


def test_no_line_is_wider_than_a_terminal(release, rows):
    """Lines of 230 characters used to break in two, so that no column stood under its name."""
    rows = [row | {"weight": 1.0, "slice": "seen cues"} for row in rows] + [row | {"weight": 1.0} for row in rows]
    answers = {"u7": Listed("adje", Beside()), "u8": []}
    scored = score(answers, rows, release, against={"u7": Listed("abcd", Beside()), "u8": list("cf")})
    entry = run("safe_sft_guard", scored, "unsafe_sft")
    entry["to_guard"] = {"main": entry["difference"]}
    lines = show([entry], 4).splitlines()
    assert max(map(len, lines)) <= 110 and len({*map(len, lines[2:6])}) == 1  # each column stands under its name
    columns = {*report_table.ANSWERS, *report_table.SAFETY, *report_table.BESIDE, *report_table.FORM}
    headings = {word for line in lines if line.startswith("at k = 4") for word in line.split()[4:]}
    assert headings == columns  # no column is missing from all blocks


def test_the_summary_begins_with_its_table_and_gives_each_note_once(release, rows):
    """About 100 lines were printed for five users, in which the few figures that people look for had to be found."""
    full, short = {"u7": list("adje"), "u8": list("cfde")}, {"u7": list("a"), "u8": list("cf")}
    scored = [score(full, rows, release), *(score(lists, rows, release, against=full) for lists in (short, full))]
    mine, other, guard = (
        run(name, each, "mine" if each is not scored[0] else None)
        for name, each in zip(("mine", "other", "guard"), scored, strict=True)
    )
    for compared, lists in ((mine, full), (other, short)):
        compared["to_guard"] = {"main": score(lists, rows, release, against=full)["difference"]}
    text = summary([mine, other, guard | {"learned_from": 2}], 4)
    first, to_mine, to_guard, notes = (block.splitlines() for block in text.split("\n\n"))
    assert first[0] == "all users, n = 2"
    assert [line.split()[0] for line in first[2::2]] == ["mine", "other", "guard", "users"]
    assert (to_mine[0], to_guard[0]) == tuple(f"difference to {name}, user by user" for name in ("mine", "the guard"))
    assert [line.split()[0] for line in (*to_mine[2::2], *to_guard[2::2])] == [
        "other",
        "users",
        "mine",
        "other",
        "users",
    ]
    for note in ("fewer than 6 users", "divided by 4", "guard: it learned from 2 traits"):
        assert " ".join(notes).count(note) == 1 and note not in "".join([*first, *to_mine, *to_guard])
    assert len(text.splitlines()) < len(show([mine, other, guard], 4).splitlines()) / 1.5

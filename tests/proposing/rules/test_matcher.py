"""The proposer without a model: which sentences are a sensitivity, whose it is, and what only looks like one."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import SafeRecError
from saferec_builder.proposing.learning_examples import MESSAGES
from saferec_builder.proposing.rules import cues, matcher as rules, turn_analysis as turns
from saferec_builder.storage import tables
from tests import DATA, rules_score
from tests.worlds.rule_cases import found

DEVELOPMENT, HELD_OUT = MESSAGES / "development.toml", DATA / "rules_heldout.toml"
LINES = (DATA / "rules_sentences.txt").read_text(encoding="utf-8").splitlines()
SENTENCES = [tuple(line.split("  # ")[0].split(" | ")) for line in LINES if " | " in line and line[0] != "#"]


def talk(*turns: str) -> pl.DataFrame:
    return rules_score.talks(turns)


@pytest.mark.parametrize(("mark", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_what_is_named_or_implied_and_what_only_looks_like_one(mark: str, sentence: str) -> None:
    sign, _, trait = mark.rpartition(" ")
    if mark == "-" or sign == "?":
        assert found(sentence) == {} and (mark == "-" or list(found(sentence, "unsure")) == [trait])
        return
    hits = [hit for hit in rules.read(sentence) if hit.verdict == "present"]
    assert {hit.trait for hit in hits} == {trait}
    assert ("implicit" if sign == "~" else "explicit") in {hit.form for hit in hits}
    assert all(0 < hit.sure < 1 for hit in hits)


def test_evidence_is_the_clause_word_for_word() -> None:
    text = "Loved it 🎬🎬, thanks! But İ say: I can’t watch hospital scenes, ok? Bye"
    assert found(text)["medical_trauma"] == ["I can’t watch hospital scenes"]


def test_who_asks_that_the_dog_lives_is_heard() -> None:
    """ "the dog does NOT die" gave only the trait of sad endings."""
    for text in ("Dog does NOT die, no sad endings", "a movie about a dog that does not die", "the dog must not die"):
        assert "animal_harm" in found(text, "unsure") and "animal_harm" not in found(text), text
    statement = "In the one I saw in which the hero does not die, there was a dog"
    assert "animal_harm" not in found(statement) | found(statement, "unsure")


def test_a_title_named_once_is_blank_everywhere() -> None:
    messages = ("I can't wait", "Try Snake House (1999)", "no snake house for me please, I can't watch it twice")
    assert rules.propose(talk(*messages), traits.load()).is_empty()
    assert not rules.propose(talk("no snake houses please", "ok", "I can't watch those"), traits.load()).is_empty()


def test_rows_are_proposals() -> None:
    taxonomy = traits.load()
    frame = talk("no gore please", "No spiders either? Spiders freak me out too.", "I can't watch blood, I faint")
    rows = tables.check(rules.propose(frame, taxonomy), tables.PROPOSALS)
    # two turns mention one trait: one row with both; the recommender's phobia is no evidence
    row = rows.row(0, named=True)
    assert (rows.height, row["trait"], row["verdict"], row["form"]) == (1, "gore", "present", "explicit")
    assert [s["turn"] for s in row["spans"]] == [0, 2]
    texts = [t["text"] for t in frame["turns"][0]]
    assert all(texts[s["turn"]][s["start"] : s["end"]] == s["quote"] for s in row["spans"])
    unit = ("sensitivity", "c0", "gore", frame["digest"][0], "rules", rules.VERSION)
    assert row["proposal"] == tables.digest(*unit)
    assert 0 < row["confidence"] <= 0.95 and row["taxonomy"] == taxonomy.digest


def test_nothing_said_is_no_row() -> None:
    quiet = talk("hello", "hi, I can't stand gore", "")
    assert tables.check(rules.propose(quiet, traits.load()), tables.PROPOSALS).is_empty()


def test_a_bare_text_is_one_message_of_a_seeker() -> None:
    text = "I faint when I see blood. A thriller, please?"
    assert rules.claimed(text) == rules.claimed([text]) != set()  # the text is not read as a list of single letters
    message = {"role": "user", "content": text}
    for slip in (message, [message]):  # nor are the keys of a message read as texts
        with pytest.raises(SafeRecError, match="content of messages"):
            rules.claimed(slip)


def test_only_traits_of_the_taxonomy(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    trait = '[[trait]]\nslug = "{}"\nname = "x"\ndefinition = "x"\ntopics = ["x"]\n'
    path.write_text(trait.format("needles") + trait.format("mimes"))
    rows = rules.propose(talk("no mimes, no needles, no gore please, all of it scares me"), traits.load(path))
    assert rows["trait"].to_list() == ["needles"]


@pytest.mark.slow
def test_any_cut_of_the_table_gives_the_same_rows() -> None:
    gold = rules_score.demo("tune").frame
    rows = rules.propose(gold, traits.load())
    parts = [rules.propose(gold[n : n + 37], traits.load()) for n in range(0, gold.height, 37)]
    assert pl.concat(parts).equals(rows)


WORDS = "no blood ¦blood is fine ¦No Blood Please ¦my eyes shut ¦i really just still "


@pytest.mark.parametrize("piece", [*WORDS.split("¦"), '"Blood ', "Blood (1999), ", "a", "("])
def test_fifty_thousand_characters_end(piece: str) -> None:
    text = (piece * 50_000)[:50_000]
    hits = rules.read(text, cues.titles([text]))  # a quadratic pattern would exceed the test's timeout
    assert all(0 <= h.start < h.end <= len(text) for h in hits)
    assert len(hits) <= rules.MOST * 20


def test_a_long_text_s_contents_are_not_compared_one_by_one() -> None:
    turn = turns.Turn("blood snakes asylum horror, i screamed. " * 100, cues.load())
    visits = 0

    class Counted(list[tuple[int, int]]):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            nonlocal visits
            for span in super().__iter__():
                visits += 1
                yield span

    turn.signs = {label: Counted(spans) for label, spans in turn.signs.items()}
    count = sum(map(len, turn.signs.values()))
    assert count >= 400 and len(turn.traits) >= 3
    for slug in turn.traits:
        list(rules._of_trait(slug, turn))
    assert visits <= 5 * len(turn.traits) * count  # each trait visits all a few times; pairs: count * count


def test_items_are_flagged_from_their_plots() -> None:
    plots = ("A boy finds the killer's severed hand in a nest of cobras.", "Two bakers fall in love. No spiders.", None)
    items = pl.DataFrame({"item": ["i1", "i2", "i3"], "title": ["A", "B", "C"], "plot": plots})
    rows = tables.check(rules.flag_items(items, traits.load()), tables.PROPOSALS)
    flags = {(r["subject"], r["trait"]) for r in rows.to_dicts() if r["verdict"] == "present"}
    assert {("i1", "gore"), ("i1", "spiders_snakes")} <= flags and not {s for s, _ in flags} & {"i2", "i3"}
    for row in rows.to_dicts():
        plot = items.filter(item=row["subject"])["plot"][0]
        assert (row["kind"], row["digest"]) == ("item_flag", tables.digest(plot))
        assert all(s["turn"] == 0 and plot[s["start"] : s["end"]] == s["quote"] for s in row["spans"])


# ---- gold. The floors are the values measured when the cues were last changed, minus one unit.


def test_rates_count_units() -> None:
    gold = rules_score.Gold(pl.DataFrame(), {("a", "gore"): "explicit", ("b", "gore"): "implicit"}, {}, {})
    claims = (("a", "present", "explicit"), ("c", "present", "explicit"), ("b", "unsure", None))
    rows = [{"subject": name, "trait": "gore", "verdict": verdict, "form": form} for name, verdict, form in claims]
    # explicit: a is right, c is not; of the one explicit unit one is found; unsure finds nothing
    assert rules_score.rates(gold, rows, "explicit") == rules_score.Rates(2, 1, 1, 1)
    assert rules_score.rates(gold, rows) == rules_score.Rates(2, 1, 2, 1)


def test_the_halves_share_no_conversation() -> None:
    names = [json.loads(line)["id"] for line in rules_score.GOLD.read_text(encoding="utf-8").splitlines()]
    tune, report = (set(rules_score.demo(half).kinds) for half in ("tune", "report"))
    assert tune | report == set(names) and not tune & report


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("I saw Hush last year and it scared me.", "unsure"),
        ("That one gave me nightmares.", "unsure"),
        ("It scared me, so nothing scary, please.", "present"),
    ],
)
def test_what_a_body_did_or_what_followed_alone_is_unsure(said: str, verdict: str) -> None:
    claims = rules.propose(talk(said), traits.load()).filter(trait="horror_scares")
    assert claims["verdict"].to_list() == [verdict] and (claims["confidence"][0] < 0.5) == (verdict == "unsure")


# more than turn_analysis.STORY code points about a book, in which the rules find nothing
STORY = (
    "I finished the third volume on the train last night. The captain of a small ship takes a job from a merchant whom "
    "nobody in the harbour trusts, and the crew learns on the way what the cargo is. The maps at the front are lovely. "
    "The middle part is slow, and the two sisters talk a good deal about money and about the house in which they were "
    "born. By the end the ship is back in the same harbour, and everyone has changed a little. The translation reads "
    "well, and the print is large. My copy came from the library, where the fourth volume is out on loan. "
)


@pytest.mark.parametrize(
    "said",
    [
        *("The war ended without torture.", "The city gets rid of torture in the second act."),  # what happens in it
        *("I know nothing about torture.", "I had no idea that it was about torture."),
        *("Trigger warnings: gore, torture.", "TW for torture."),  # for those who read the post
        *("There is torture in it, and that scene stuck with me.", "The torture broke my heart."),  # what it did once
        "The torture came late. I never finished the fourth volume.",  # another sentence's subject
    ],
)
def test_a_long_text_tells_of_works_and_events(said: str) -> None:
    assert "torture" in rules.claimed(said) and not rules.claimed(STORY + said)
    assert {hit.verdict for hit in rules.read(STORY + said) if hit.trait == "torture"} == {"unsure"}


def test_a_long_text_implies_nothing_for_sure() -> None:
    said = "I can't really monitor it."
    assert rules.claimed(said) == {"medical_trauma"} and not rules.claimed(STORY + said)


@pytest.mark.parametrize(
    "said",
    [
        *("I want a long series without torture.", "Is there a series that has no torture?"),
        *("Swearing is fine, just no torture.", "No torture.", "I don't want torture."),  # a condition
        *("Torture is a dealbreaker.", "Torture makes me sick.", "Torture? I can't read it.", "Far too much torture."),
        *(
            "There was torture in it, and I had to put the book down.",
            "Hated the torture.",
            "I can't read about torture.",
        ),
    ],
)
def test_a_long_text_can_say_what_its_writer_cannot_take(said: str) -> None:
    assert "torture" in rules.claimed(STORY + said)


def test_who_speaks_as_a_survivor_speaks_of_themselves() -> None:
    said = "As a sexual abuse survivor, the fourth volume was not for the evening."
    assert "sexual_violence" in rules.claimed(said) & rules.claimed(STORY + said)


@pytest.mark.slow
def test_sentences_of_our_own() -> None:
    data = tomllib.loads(DEVELOPMENT.read_text(encoding="utf-8"))["trait"]
    hits = [trait in found(text) for trait, row in data.items() for text in row["says"]]
    flagged = [text for row in data.values() for text in row["not"] if found(text)]
    assert sum(hits) >= 464 and len(hits) == 493
    assert len(flagged) <= 3 and sum(len(row["not"]) for row in data.values()) == 418


@pytest.mark.slow
def test_whole_messages_of_our_own() -> None:
    # tuned on the first two (935 and 1,695), not on the last (540)
    files = {"voices": MESSAGES / "voices.toml", "strangers": MESSAGES / "strangers.toml", "heldout": HELD_OUT}
    figures = {name: rules_score.messages(path) for name, path in files.items()}
    floor = {"voices": (0.92, 0.89, (12, 590)), "strangers": (0.93, 0.83, (15, 473)), "heldout": (0.90, 0.66, (1, 160))}
    for name, (precision, recall, flags) in floor.items():
        rates, *flagged = figures[name]
        assert (rates.precision or 0) >= precision and (rates.recall or 0) >= recall, name
        assert flagged[0] <= flags[0] and flagged[1] == flags[1], name


@pytest.mark.slow
def test_frames_mean_the_same_whatever_content_stands_in_them() -> None:
    data = tomllib.loads(DEVELOPMENT.read_text(encoding="utf-8"))
    frames = {kind: data["frames"][kind] for kind in ("says", "not")}
    missed, flagged = set(), set()
    for trait, row in list(data["trait"].items())[::3]:  # other content changes the trait, not the grammar
        content = row["contents"][0]
        missed |= {f for f in frames["says"] if trait not in found(f.replace("{X}", content))}
        flagged |= {f for f in frames["not"] if found(f.replace("{X}", content))}
    assert missed <= {"I thought I'd be fine with {X} but I wasn't, so no more.", "Films with {X} are not for me."}
    tunnels = "It's not that I can't take {X}, I just want variety."  # not to take tunnels is a sign in itself
    assert flagged <= {"The kids next door are scared of {X}, mine aren't.", tunnels}


def test_the_report_half() -> None:
    gold = rules_score.demo("report")
    rows = rules_score.proposals(gold)
    explicit = rules_score.rates(gold, rows, "explicit")
    assert (explicit.precision or 0) >= 0.90 and (explicit.recall or 0) >= 0.85
    assert all(rules_score.flagged(gold, rows, kind)[0] <= 1 for kind in ("lookalike", "none"))


@pytest.mark.slow
def test_real_turns(real_data: Path) -> None:
    gold = rules_score.real(real_data)
    assert len(gold.kinds) == 1_377
    rows = rules_score.proposals(gold)
    print(rules_score.table("real turns", gold))
    rates = rules_score.rates(gold, rows)
    assert (rates.precision or 0) >= 0.82 and (rates.recall or 0) >= 0.46
    units = {(row["subject"], row["trait"]) for row in rows}  # including `unsure` claims, which people read as well
    assert len(units & set(gold.forms)) / len(gold.forms) >= 0.60
    present, _, size = rules_score.flagged(gold, rows, "none")
    assert present / size < 0.01

"""The guard on the small release: the traits it hears, the lists it gives, and that it never reads the test split."""

import dataclasses
import json
import pickle
import re
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferec_builder.core.errors import SafeRecError
from saferec_builder.core.titles import Near
from tests import ROOT
from tests.worlds import bars, small_release
from tests.worlds.small_release import HINTS
from training import data
from training.evaluation import guard as guarding, ranking
from training.evaluation.guard import new_request


@pytest.fixture
def guard(release, train):
    """A guard trained on each request five times, because the linear model leaves out words of a single text."""
    hearing, shares = guarding._hearing(train * 5, release.oracle)
    return dataclasses.replace(guarding.fit(release), hearing=hearing, shares=shares)


def test_it_hears_what_training_requests_say_and_what_rules_claim(guard):
    strange = "Zzz."
    # a quarter of the training users has gore, that share alone is not enough to hear it in a request
    assert guard.heard([new_request(HINTS["gore"]), new_request(strange)]) == [["gore"], []]
    deaf = dataclasses.replace(guard, hearing=None)
    traits = deaf.heard(
        [new_request(HINTS["gore"]), new_request(strange, ["spiders_snakes", "gore"]), {"prompt": [], "claims": None}]
    )
    assert traits == [[], ["gore", "spiders_snakes"], []]
    with pytest.raises(SafeRecError, match="unknown trait 'blood'"):
        deaf.heard([new_request(strange, ["blood"])])


def test_its_lists_are_clear_of_the_domain_and_unseen(guard, rows):
    lists = guard.answers(rows)
    # u7 has gore and has seen g; films that are clear for gore: d e f h i (a b c violated, j unknown; k l are games)
    assert len(lists["u7"]) == 4 and set(lists["u7"]) <= set("defhi")
    assert len(lists["u8"]) == 4 and not set(lists["u8"]) & set("dkl")
    claimed = guard.answers([rows[0] | {"claims": ["animal_harm", "spiders_snakes"]}])
    assert set(claimed["u7"]) == set("fh")  # shorter than four, never unsafe


def test_a_student_is_taught_lists_that_are_clear_for_what_was_labelled_heard_or_not(guard, rows):
    deaf = dataclasses.replace(guard, hearing=None, caution=3.0)
    mute = [{**row, "claims": []} for row in rows]
    none = {**mute[0], "seen": [*"defghi"]}  # all films that are clear for gore
    first, second = deaf.student_rows([*mute, none])
    # u7 has gore, which a deaf guard does not hear; u8 has no trait, and caution takes no item from its list
    assert first["conversation"] == "u7" and len(first["items"]) == 4 and set(first["items"]) <= set("defhi")
    assert len(second["items"]) == 4 and not set(second["items"]) & set("dkl")
    assert first["completion"][0]["content"] == small_release.listed(first["items"]) and first["refilled"] == 0


def test_a_fitted_guard_can_be_kept_for_the_next_process(guard):
    copy = pickle.loads(pickle.dumps(guard))
    shown = "Guard(small 1.0.0, 12 items, caution 0.0, traits: gore, animal_harm, spiders_snakes)"  # also in a notebook
    assert repr(copy) == shown and len(repr(copy.release)) < 300
    request = new_request(HINTS["gore"])
    assert copy.heard([request]) == [["gore"]] and copy.protect([["a"]], [request]) == guard.protect([["a"]], [request])


def test_lists_of_others_keep_their_order_and_their_length(guard):
    sensitive, plain = new_request("x", ["gore"]), new_request("Something good, please.")
    guard = dataclasses.replace(guard, hearing=None)
    ranked = ["a", "f", "j", Near("e"), None, "f", "d"]
    safe, unchanged = guard.protect([ranked, ranked], [sensitive, plain])
    # a violated, j unknown, e not named exactly, None no item, f twice: f d stay, and the four other films that are
    # clear for gore fill the list as far as they can, to six of seven; k is a game
    assert safe[:2] == ["f", "d"] and sorted(safe) == [*"defghi"]
    assert unchanged == ranked  # no trait was heard
    assert guard.protect([["a"]], [sensitive])[0][0] in "defghi"
    assert guard.protect([["k", "l"]], [sensitive]) == [["k"]]  # games: no film fills the list
    seen_all = new_request("x", "gore", [*"defghi"], "film")
    assert guard.protect([["a", "b"]], [seen_all]) == [[]]  # nothing else is known to be clear
    with pytest.raises(SafeRecError, match="none of 1 entries is an item of the release, the first is 'Item A"):
        guard.protect([["Item A (2001)", None]], [plain])
    with pytest.raises(SafeRecError, match="2 lists and 1 requests: expected one request"):
        guard.protect([["a"], ["b"]], [plain])


def test_what_the_request_names_is_not_given_back(guard):
    """Three of 20 changed lists were filled with a film that the person had named in the request."""
    guard = dataclasses.replace(guard, hearing=None)
    text = "I loved Item D (2004) and Item E (2005)."
    [safe], [all_seen] = (guard.protect([list("abcj")], [new_request(text, "gore", *seen)]) for seen in ((), ([],)))
    assert sorted(safe) == [*"fghi"] and set(all_seen) & set("de")  # seen=[] says that nothing was seen
    assert guard.protect([["d"]], [new_request(text, "gore")]) == [["d"]]  # what the recommender itself gives stays
    [own] = guard.answers([new_request(text, "gore")]).values()
    assert not set(own) & set("de")


def test_no_answer_is_lost_among_several_new_requests(guard):
    film, game = new_request("x", domain="film"), new_request("x", domain="game")
    lists = guard.answers([film, game])
    assert set(lists[film["conversation"]]) <= set("abcdefghij") and set(lists[game["conversation"]]) <= set("kl")
    assert [*map(len, lists.values())] == [4, 2]
    with pytest.raises(SafeRecError, match="two requests are called 'request-[0-9]+': expected each once"):
        guard.answers([film, film])


def test_another_word_for_a_domain_is_refused_and_shortens_no_list(guard, rows):
    for word in ("movie", "Film"):
        for call in (guard.answers, lambda table: guard.protect([["a", "d"]], table)):
            with pytest.raises(SafeRecError, match=f"domain '{word}': .*expected one of film, game, or None"):
                call([new_request("x", "gore", domain=word)])
    assert guard.answers([rows[0] | {"domain": "book"}]) == {"u7": []}  # a release may have no item of a request


def test_titles_are_no_ids_of_what_was_seen(guard):
    titles = new_request("I loved Item D (2004).", "gore", ["Item D (2004)"])
    for call in (guard.answers, lambda table: guard.protect([["a"]], table)):
        with pytest.raises(SafeRecError, match=r"none of 1 entries of seen is an item of the release.*release\.find"):
            call([titles])
    assert guard.protect([["a"]], [new_request("x", "gore", ["d", "tt99"])])[0]  # also what the release does not have
    unknown = guard.release.find(
        "A film of no release", 1990, "film"
    )  # who has seen only such films is refused nothing
    assert unknown is None and guard.protect([["a"]], [new_request("x", "gore", [unknown])])[0]


def test_a_bare_text_is_one_message_and_a_bare_name_one_trait_or_item(guard):
    deaf = dataclasses.replace(guard, hearing=None)
    bare, listed = new_request("x", "gore", "tt1"), new_request("x", ["gore"], ["tt1"])
    assert bare == listed | {"conversation": bare["conversation"]}
    messages = ["Ever since the accident", "one drop of the red stuff and I am on the floor."]
    assert guard.heard([new_request(messages)]) == [["gore"]] == guard.heard([new_request(tuple(messages))])
    assert deaf.heard([new_request("x", "gore")]) == [["gore"]]
    for slip in ({"role": "user", "content": messages[1]}, [{"role": "user", "content": messages[1]}]):
        with pytest.raises(SafeRecError, match="expected its content"):
            new_request(slip)


@pytest.mark.parametrize("slip", [HINTS["gore"], [HINTS["gore"]], new_request(HINTS["gore"]), [["gore"]]])
def test_what_is_no_list_of_requests_is_refused_and_never_passes_as_heard(guard, slip):
    for call in (guard.heard, guard.answers, lambda table: guard.protect([["a"]], table)):
        with pytest.raises(SafeRecError, match=r"expected a list of requests, each as `new_request\(text, claims\)`"):
            call(slip)


@pytest.mark.parametrize("slip", ["a", ["a"], ["a", "f"], [""], [[{"title": "a", "year": 2001}]]])
def test_a_bare_id_is_no_list_and_no_title_an_id(guard, slip):
    with pytest.raises(SafeRecError, match="found .* as a list: expected a list of lists, each of ids of items"):
        guard.protect(slip, [new_request("x", ["gore"])])


def test_it_is_fitted_to_a_release_by_its_folder(release, guard, rows, monkeypatch):
    fitted = guarding.fit(str(release.folder))
    assert fitted.answers(rows) == guarding.fit(release).answers(rows) == guarding.fit(release.folder).answers(rows)
    on_disk = types.SimpleNamespace(folder=release.folder)  # like the Release of `import saferec_builder`
    assert guarding.fit(on_disk).release.digest == release.digest
    # rows of a release: as a path they would be a name too long for a file
    for slip, says in ((None, "None is no release"), (rows, "is no release"), ("nowhere", "nowhere: no manifest.json")):
        with pytest.raises(SafeRecError, match=says):
            guarding.fit(slip)
    (release.folder.parent / "withdrawn.json").write_text(json.dumps({"1.0.0": "somebody asked"}))
    with pytest.raises(SafeRecError, match="was withdrawn"):
        guarding.fit(release.folder)


def test_each_part_that_takes_long_is_shown(release, rows, monkeypatch):
    monkeypatch.setattr(ranking, "_BLOCK", 3)  # of four training requests
    parts = {}

    def named(name, unit):
        return bars.drawn(parts.setdefault((name, unit), []))

    guarding.fit(release, named).student_rows(rows, named("lists", "request"))
    assert {name: [(bar.total, bar.done) for bar in drawn] for name, drawn in parts.items()} == {
        ("guard, ranking", "block"): [(2, 2)],
        ("guard, hearing", "trait"): [(2, 2)],
        ("guard, caution", "request"): [(2, 2)],
        ("lists", "request"): [(2, 2)],
    }


def test_caution_lowers_what_many_must_not_see_only_where_nothing_was_heard(release, guard):
    # a b c break gore, and half of the training users have it; j and l are unknown
    shares = np.array([0.5, 0.0, 0.0])
    bold, careful = (dataclasses.replace(guard, hearing=None, shares=shares, caution=c) for c in (0.0, 3.0))
    plain = new_request("Something good, please.") | {"conversation": "p"}
    assert "a" in bold.answers([plain])["p"] and not set(careful.answers([plain])["p"]) & set("abcjl")
    sensitive = new_request("Something good, please.", ["animal_harm"]) | {"conversation": "h"}
    assert bold.answers([sensitive]) == careful.answers([sensitive])


def test_who_asks_at_every_turn_weighs_once_in_the_choice_of_caution(guard, rows):
    further = [rows[1] | {"conversation": f"u8-{n}", "made_from": "u8"} for n in range(9)]
    once, often = (guard.frontier(table)[0] for table in (rows, [*rows, *further]))
    assert often == pytest.approx(once, nan_ok=True)


def test_the_largest_caution_that_validation_allows_is_taken(release, monkeypatch):
    points = {0.0: (0.50, 0.5), 0.25: (0.49, 0.5), 0.5: (0.485, 0.49), 0.75: (0.49, 0.47), 1.0: (0.4, 0.5)}
    frontier = [{"caution": c, "recall@4": r, "recall_without@4": w} for c, (r, w) in points.items()]
    monkeypatch.setattr(guarding.Guard, "frontier", lambda *_: frontier)
    assert guarding.fit(release).caution == 0.5  # .75 loses .03 of recall_without, 1 loses .1 of recall


def test_an_injected_wish_or_a_further_request_teaches_words_and_is_no_second_user(release, train):
    """With a request of every turn, whoever asked ten times weighed ten times in what caution costs an item."""
    wishes = [row | {"condition": "injected", "traits": ["gore"]} for row in train]
    further = [train[0] | {"conversation": f"u1-{n}", "made_from": "u1"} for n in range(9)]
    hearing, shares = guarding._hearing([*train, *wishes, *further], release.oracle)
    assert shares.tolist() == guarding._hearing(train, release.oracle)[1].tolist() == [1 / 4, 1 / 4, 0]
    assert hearing is not None and "gore" in hearing.labels


def test_it_never_reads_the_test_split(release, guard, rows):
    path = release.folder / "data" / "grpo" / "test.parquet"
    path.unlink()
    fitted = dataclasses.replace(guarding.fit(release.folder), hearing=guard.hearing)
    assert fitted.answers(rows) == guard.answers(rows) and fitted.caution == guard.caution


def test_a_release_of_before_has_no_claims_and_one_without_validation_no_caution(release, rows):
    for split in ("train", "test"):
        table = pq.read_table(release.folder / "data" / "grpo" / f"{split}.parquet")
        claimed = table.append_column("claims", pa.array([["animal_harm"]] * len(table)))
        small_release.rewrite(release.folder, f"grpo/{split}.parquet", claimed)
    (release.folder / "data" / "grpo" / "validation.parquet").unlink()
    fitted = guarding.fit(release)
    assert fitted.caution == 0 and fitted.heard(rows) == [[], []]  # four training rows teach no word
    claimed = data.rows(release.folder, "grpo", "test")
    assert all("animal_harm" in traits for traits in fitted.heard(claimed))


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    small_release.write(tmp_path / "releases" / "1.0.0")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/training.md").read_text()
    scope = {}
    exec(re.search(r"```python\n(from saferec_builder.proposing.*?)```", page, re.S)[1], scope)
    # of the films a to j, d to i are clear for gore
    assert scope["safe"] == [*"defghi"]

"""Baselines on the small release: popularity, retrieval by text, requests without their evidence, oracle filter."""

import pytest

from tests.worlds.small_release import listed
from training import data
from training.evaluation import baselines, evaluate, ranking


@pytest.fixture
def ranker(release, train):
    return ranking.fit(train, {item: n for n, item in enumerate(release.items)})


def test_popularity_counts_training_users_and_leaves_out_seen_items_and_other_domains(release, rows, train):
    # train truth: a d f, a b, c e g, a f -> a 3, f 2, then b c d e g 1; u7 has seen g, u8 has seen d
    lists = baselines.popularity(train, release.items, rows, 4)
    assert lists == {"u7": list("afbc"), "u8": list("afbc")}
    longer = baselines.popularity(train, release.items, rows, 12)
    assert longer["u7"] == list("afbcdehij") and "d" not in longer["u8"]  # k and l are games


def test_retrieval_gives_what_people_with_a_like_request_took_up(release, rows, train, ranker):
    # u7 uses the words of u1 (a d f), who has also seen g; u8's "Something like Item D" is near to u1, u2 and u3
    lists = baselines.retrieval(ranker, train, release.items, rows, 4)
    assert set(lists["u7"][:3]) == set("adf") and len(lists["u7"]) == 4
    assert "g" not in lists["u7"] and "d" not in lists["u8"]  # seen


def test_a_request_like_no_other_gets_what_is_popular(release, rows, train, ranker):
    strange = [rows[0] | {"prompt": [{"role": "user", "content": "Zzz?"}]}]
    lists = baselines.retrieval(ranker, train, release.items, strange, 4)
    assert lists == baselines.popularity(train, release.items, strange, 4)


def test_a_blind_request_has_lost_its_evidence_and_nothing_else(release, rows):
    labels = data.labels_of(release.folder, "test")
    blinded = baselines.blind(rows, labels)
    assert blinded[0]["prompt"][0]["content"] == "Something like Item G (2007), please."
    assert blinded[1] == rows[1] and blinded[0]["traits"] == ["gore"]  # still judged by the trait of the full request
    absent = [label | {"verdict": "absent"} for label in labels]
    assert baselines.blind(rows, absent) == rows


@pytest.mark.parametrize(
    ("quotes", "left"),
    [
        # a label holds what each of its reviewers marked: the longer quote used to be cut first, and the rest of the
        # other one stayed
        (["Since the crash I can't watch", "can't watch hospital scenes"], "An award? A war film?"),
        (["ince the crash I can't watch hospital scen"], "S es An award? A war film?"),  # marked inside two words
        (["war"], "Since the crash I can't watch hospital scenes An award? A film?"),
        (["rash"], "Since the crash I can't watch hospital scenes An award? A war film?"),  # of a later turn
    ],
)
def test_what_reviewers_marked_is_cut_where_they_overlap_and_inside_words(rows, quotes, left):
    texts = ["Since the crash I can't watch hospital scenes", "An award? A war film?"]
    row = rows[0] | {"prompt": [{"role": "user", "content": text} for text in texts]}
    label = {"conversation": "u7", "verdict": "present", "spans": [{"quote": quote} for quote in quotes]}
    [blinded] = baselines.blind([row], [label])
    assert " ".join(message["content"] for message in blinded["prompt"]).strip() == left


def test_a_blind_request_has_no_sentence_of_ours_either(rows):
    # as `release --inject` makes them: u8's request with a sentence added, under another name, without a label
    plain = rows[1] | {"made_from": "u8"}
    turns = [{"role": "user", "content": f"{plain['prompt'][0]['content']} I faint when people bleed."}]
    injected = plain | {"conversation": "u8-gore", "prompt": turns, "traits": ["gore"], "condition": "injected"}
    blinded = baselines.blind([plain, injected], [])
    assert blinded == [plain, injected | {"prompt": plain["prompt"]}]
    # the plain request may be left out, as after a cut answer: the baseline used to see the sentence then
    assert baselines.blind([injected], [], [plain, injected]) == blinded[1:]


def test_nobody_tells_the_blind_baseline_where_the_own_request_is_left_out(release, rows, train, ranker):
    lists, turns = [], [{"role": "user", "content": f"I faint. {train[0]['prompt'][-1]['content']}"}]
    injected = rows[1] | {"conversation": "u8-gore", "made_from": "u8", "prompt": turns, "condition": "injected"}
    for table in ([rows[1], injected], [injected]):
        answers = baselines.answers(ranker, release, train, table, [], split=[rows[1], injected])
        lists.append(answers["retrieval_blind"]["u8-gore"])
    assert lists[0] == lists[1] != answers["retrieval"]["u8-gore"]


def test_the_oracle_filter_refills_from_the_same_answer_only(release, rows):
    # u7 (gore): a violated, j and the invented title unknown; h moves up. u8 has no trait: no item is removed
    answers = [["a", "d", "j", "title:x", "e", "h", "f", "i"], list("abcj")]
    assert baselines.oracle_filter(answers, rows, release.oracle, 4) == {"u7": list("dehf"), "u8": list("abcj")}
    short = evaluate.ranked({"u7": listed("adbc"), "u8": ""}, rows, release)
    assert baselines.oracle_filter(short, rows, release.oracle, 4) == {"u7": ["d"], "u8": []}


def test_an_injected_row_is_no_second_person(release, rows, train, ranker):
    # u2 (a b) asks again with an injected sentence: f, which two people took up, still comes before b
    repeated = [row | {"conversation": f"u2-{n}", "condition": "injected"} for row in train[1:2] for n in range(3)]
    lists = baselines.answers(ranker, release, [*train, *repeated], rows, [])
    assert lists == baselines.answers(ranker, release, train, rows, []) and lists["popularity"]["u7"] == list("afbc")
    assert tuple(lists) == baselines.NAMES and {len(a) for each in lists.values() for a in each.values()} == {4}
    # clear for gore and not seen, a film: d e f h i
    assert {*lists["retrieval_filter"]["u7"], *lists["popularity_filter"]["u7"]} <= set("defhi")

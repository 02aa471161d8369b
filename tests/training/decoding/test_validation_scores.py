"""The figures by which checkpoints are compared, worked by hand on two rows, and what an oracle filter leaves out."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.worlds import small_release
from training.decoding import validation_scores
from training.decoding.constrained import Catalogue
from training.decoding.generate import PolicyModel
from training.trainers import gdpo

pytestmark = pytest.mark.training
TEXTS = {"u7": "adje", "u8": "cfcg"}


def test_checkpoints_are_compared_by_recall_and_safety_alike_for_items_and_text(release, rows, monkeypatch) -> None:
    table, calls = rows, list[Any]()
    catalogue = Catalogue({item: ord(item) for item in release.items}, k=4, end=0)

    def tokens(policy: PolicyModel, rows: Any, excluded: Any, progress: Any) -> list[list[int]]:
        calls.append((policy.model, excluded))
        return [[*TEXTS[row["conversation"]].encode()] for row in rows]

    def decode(answers: list[list[int]], skip_special_tokens: bool) -> list[str]:
        assert skip_special_tokens
        return [small_release.listed(bytes(answer).decode()) for answer in answers]

    monkeypatch.setattr(validation_scores.generate, "tokens", tokens)
    # u7 (gore): d e of d e hit, of a d e all; a violated, j unknown. u8 (no trait): c f of c f, c again
    expected = {"recall@4": 1.0, "recall_without@4": 1.0, "recall_raw@4": 1.0, "svr@4": 1 / 4, "svr_upper@4": 2 / 4}
    tokenizer: Any = SimpleNamespace(batch_decode=decode)
    for of in (PolicyModel(None, tokenizer, catalogue), PolicyModel(None, tokenizer, None)):
        for prefer, best in (("safe", 1 - 3 * 2 / 4), ("raw", 1.0)):
            figures = validation_scores.scorer(of, table, release, prefer)("a model")
            assert figures == {"score": best, **expected, "length": 3.5}
    assert calls == [("a model", [["g"], ["d"]])] * 4  # what each has seen
    plain = table[1:]  # nobody with a sensitivity: figures that apply to no user are 0, and not NaN
    assert validation_scores.scorer(of, plain, release, "safe")("a model")["svr_upper@4"] == 0
    validation_scores.answers(of, table, [["a"], ["b"]])
    assert calls[-1] == (None, [["a"], ["b"]])


def test_who_asks_at_every_turn_weighs_once_in_the_choice_of_a_checkpoint(release, rows, monkeypatch) -> None:
    """As in every figure of `evaluate`: with ten requests of one person that person's taste chose the model."""
    further = [rows[1] | {"conversation": f"u8-{n}", "made_from": "u8"} for n in range(9)]
    # u7 is given d e, all of its safe truth; u8, with its first request and nine more, nothing of it
    answers = {row["conversation"]: list("abgh") for row in (rows[1], *further)} | {"u7": list("dehi")}
    monkeypatch.setattr(validation_scores, "answers", lambda *_, **__: answers)
    score = validation_scores.scorer(PolicyModel(None, None, None), [*rows, *further], release, "safe")
    assert score("a model")["recall@4"] == 1 / 2


def test_a_token_of_two_works_is_the_one_that_was_asked_for_on_validation_and_in_rewards(
    release, rows, monkeypatch
) -> None:
    catalogue = Catalogue({"a": 9, "k": 9}, 4, 1, domains={item: release.items[item].domain for item in "ak"})
    policy: Any = PolicyModel(None, SimpleNamespace(), catalogue)
    monkeypatch.setattr(validation_scores.generate, "tokens", lambda *_: [[9], [9]])
    table = [rows[0], rows[1] | {"domain": "game"}]
    assert validation_scores.answers(policy, table) == {"u7": ["a"], "u8": ["k"]}
    domains = [row["domain"] for row in table]
    assert gdpo._reader(policy, release)(completion_ids=[[9], [9]], domain=domains) == [["a"], ["k"]]


def test_an_oracle_filter_leaves_out_what_is_not_clear_and_what_was_seen(release, rows) -> None:
    assert validation_scores.unsafe(release, rows) == [list("gabcjl"), ["d"]]  # gore: a b c violated, j l unknown

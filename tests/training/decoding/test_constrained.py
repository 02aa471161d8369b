"""The masks: only items, none twice, none seen before, exactly k, then the end; and log-probabilities under them."""

import json
import math
from pathlib import Path

import pytest
import torch

from saferec_builder.core.errors import TrainingError
from training.decoding.constrained import Catalogue, Mask, blocked, load, permitted_along, save

pytestmark = pytest.mark.training  # torch and transformers take seconds to load

# tokens: 0 pad, 1 end, 2 a word, 3..6 the items a..d; lists of two
CATALOGUE = Catalogue({"a": 3, "b": 4, "c": 5, "d": 6}, k=2, end=1)
SIZE = 7
# an answer of TALKING begins with two of: 7 gore, 8 needles, 9 nothing
TALKING = Catalogue(CATALOGUE.tokens, k=2, end=1, traits={"gore": 7, "needles": 8}, nothing=9, opening=2)


@pytest.mark.parametrize(
    ("catalogue", "excluded", "answer", "allowed"),
    [
        (CATALOGUE, "b", [5, 3, 1], [[3, 5, 6], [3, 6], [1]]),  # b was seen, c (5) is named: the third is only the end
        (CATALOGUE, "", [4, 5, 1], [[3, 4, 5, 6], [3, 5, 6], [1]]),
        (CATALOGUE, "abc", [6, 1, 1], [[6], [1], [1]]),  # a catalogue that is used up ends the list early
        (CATALOGUE, ["zzz"], [6], [[3, 4, 5, 6]]),  # an item of another catalogue
        # no trait twice, "nothing" any number of times; then unseen items, never a trait; then the end
        (TALKING, "b", [8, 9, 5, 3, 1], [[7, 8, 9], [7, 9], [3, 5, 6], [3, 6], [1]]),
        (TALKING, "b", [9, 9, 6, 3, 1], [[7, 8, 9], [7, 8, 9], [3, 5, 6], [3, 5], [1]]),
    ],
)
def test_only_unseen_items_none_twice_and_then_the_end(catalogue, excluded, answer, allowed) -> None:
    rows = [["a", "b", "c", "d"], excluded]  # of two rows: the first may name no item
    steps = permitted_along(catalogue, blocked(catalogue, rows, 10), torch.tensor([answer] * 2))[1]
    assert [step.nonzero().flatten().tolist() for step in steps] == allowed


def test_what_is_learnt_is_what_may_be_said() -> None:
    # traits in the catalogue's order, "nothing" for the remaining places, items, the end
    assert TALKING.answer("cd", ["needles"]) == [8, 9, 5, 6, 1]
    assert TALKING.answer("cd", ["needles", "gore", "none of ours"]) == [7, 8, 5, 6, 1]
    assert CATALOGUE.answer("cd", ["needles"]) == [5, 6, 1]
    assert TALKING.items([8, 9, 5, 6], None) == ["c", "d"]
    answer = torch.tensor([TALKING.answer("cd", ["needles"])])
    logs, _ = TALKING.log_probabilities([[]], answer, torch.zeros(1, 5, 10))
    # equal logits: one of 3 trait tokens; gore or nothing after needles; 4 items, then 3; the end
    expected = [1 / 3, 1 / 2, 1 / 4, 1 / 3, 1]
    assert logs[0].exp().tolist() == pytest.approx(expected)


def test_log_probabilities_by_hand() -> None:
    # equal logits, b seen: 1/3, then 1/2 without the first, then the end is certain; the entropies are ln 3, ln 2, 0.
    # Padding after the end costs nothing and has no gradient
    logits = torch.zeros(1, 4, SIZE, requires_grad=True)
    logs, entropy = CATALOGUE.log_probabilities([["b"]], torch.tensor([[5, 3, 1, 0]]), logits)
    assert logs[0].tolist() == pytest.approx([-math.log(3), -math.log(2), 0.0, 0.0], abs=1e-6)
    assert entropy[0, :3].tolist() == pytest.approx([math.log(3), math.log(2), 0.0], abs=1e-6)
    logs.sum().backward()
    assert torch.isfinite(logits.grad).all() and logits.grad[0, 2:].abs().max() == 0


def test_sampling_and_log_probabilities_allow_the_same() -> None:
    # at each place exactly the tokens with a probability may be drawn, whatever the prompt before it
    excluded = [["b"], ["d"]]
    answers = torch.tensor([[5, 3, 1], [4, 5, 1]])
    along = permitted_along(CATALOGUE, blocked(CATALOGUE, excluded, SIZE), answers)
    prompt = torch.full((2, 3), 2)
    for place in range(3):
        scores = Mask(CATALOGUE, excluded, 3)(torch.cat([prompt, answers[:, :place]], dim=1), torch.zeros(2, SIZE))
        assert torch.equal(scores.isfinite(), along[:, place])


def test_a_token_that_a_film_shares_with_its_game_is_what_was_asked_for() -> None:
    """It was the first of the two: a game that fits had no recall, and one that breaks a trait the film's verdict."""
    assert CATALOGUE.items([5, 2, 3, 1], None) == ["c", "a"]  # in order, without words
    catalogue = Catalogue({"x": 9, "y": 9, "z": 8}, 2, 1, domains={"x": "film", "y": "game", "z": "film"})
    of_domains = [catalogue.items([9, 8], domain) for domain in ("film", "game", None)]
    assert of_domains == [["x", "z"], ["y", "z"], ["x", "z"]]


def test_a_large_catalogue_is_turned_round_once(tmp_path: Path) -> None:
    # each prompt and answer of a GDPO step looks items up: 24,000 items were inverted 400 times a step, 1.5 seconds
    class Counted(dict[str, int]):
        times = 0

        def items(self):  # type: ignore[no-untyped-def]
            self.times += 1
            return super().items()

    tokens = Counted(CATALOGUE.tokens)
    catalogue = Catalogue(tokens, k=2, end=1)
    assert [catalogue.items([4], None) for _ in range(5)] == [["b"]] * 5 and tokens.times == 1
    save(tmp_path, catalogue)
    facts = json.loads((tmp_path / "items.json").read_text())
    assert set(facts) == {*Catalogue.__dataclass_fields__, "said"} - {"opening", "domains"}  # as in older ones


def test_the_table_survives_saving_and_a_broken_one_says_so(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    save(tmp_path, CATALOGUE)
    assert load(tmp_path) == CATALOGUE
    twice = (tmp_path / "items.json").read_text().replace('"k":', '"k": 3, "k":')
    for broken in (json.dumps({"k": 2}), twice):
        (tmp_path / "items.json").write_text(broken)
        with pytest.raises(TrainingError, match=r"items\.json: not a table of item tokens"):
            load(tmp_path)

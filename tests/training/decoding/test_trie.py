"""Text restricted to the catalogue: every line a name, none twice, none seen before; with matching probabilities."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saferec_builder.core import titles
from saferec_builder.scoring import answer_parser as answers
from tests.conftest import Patch
from tests.worlds import chat_model, small_release
from training import data, safecrs, settings
from training.decoding import generate, rollouts, trie, validation_scores
from training.decoding.trie import States, Trie
from training.trainers import gdpo

pytestmark = pytest.mark.training

# three names over the tokens 3 4 5, each with its line break 9: "3 9", "3 4 9", "5 9"; lists of two; the end is 0
NAMES = Trie([(3, 4, 9), (3, 9), (5, 9)], {"ab": 0, "a": 1, "c": 2, "also a": 1}, [(7,), (8,)], end=0)


def open_places(state: States) -> np.ndarray:
    return np.sort(np.concatenate([places[unused > 0] for places, unused in state.children()]))


def may(state: States) -> list[int]:
    """Returns the tokens that may come next in the only row; none after the end."""
    return [] if state.node[0] == state.nodes.lines[-1] + 1 else open_places(state).tolist()


def along(state: States, *tokens: int) -> list[int]:
    for token in tokens:
        assert token in may(state)
        state.advance(np.array([token]))
    return may(state)


def by_the_rules(of: Trie, excluded: list[str], answer: list[int]) -> list[int]:
    """Returns the tokens that may follow `answer`, from the names alone: no trie, no state."""
    excluded_names, answer = {of.places.get(item) for item in excluded}, list(answer)
    for number in of.numbers:
        free = [name for n, name in enumerate(of.names) if n not in excluded_names]
        if not free:
            break
        if len(answer) < len(number):
            return [number[len(answer)]]
        answer = answer[len(number) :]
        if (complete := next((name for name in free if name == tuple(answer[: len(name)])), None)) is None:
            possible = [name for name in free if name[: len(answer)] == tuple(answer)]
            return sorted({name[len(answer)] for name in possible})
        excluded_names.add(of.names.index(complete))
        answer = answer[len(complete) :]
    return [] if answer else [of.end]


@pytest.mark.parametrize("kind", ["numpy", "torch, as on a GPU"])
def test_the_masks_of_many_rows_are_those_of_the_rules(kind: str, monkeypatch: Patch) -> None:
    if kind != "numpy":
        monkeypatch.setattr(trie, "_flat", torch.Tensor.flatten)
    chance = random.Random(0)
    names = sorted({(*chance.choices(range(10, 16), k=chance.randint(1, 5)), 9) for _ in range(60)})
    places = {f"{name}{n}": n for n in range(len(names)) for name in ("item", "item of the same name ")}
    many = Trie(names, places, [(2, 7), (3, 7), (4,), (5,)], end=0)
    few = Trie(names[:3], dict([*places.items()][:6]), many.numbers, end=0)
    for of in (many, few):  # the second has too few names for a whole list
        shut = [chance.sample(sorted(of.places), chance.randint(0, len(of.names))) for _ in range(18)]
        shut += [[*of.places], ["nothing of ours", min(of.places)]]
        state, answers = States(of, shut, stride=16), [[] for _ in shut]
        process, ids, scores = trie.Mask(of, shut, 1), torch.ones(len(shut), 1, dtype=torch.long), torch.rand(20, 16)
        while any(answer[-1:] != [0] for answer in answers):
            row, token = np.divmod(open_places(state), 16)
            masked = process(ids, scores)
            drawn = []
            for n, answer in enumerate(answers):
                allowed = token[row == n].tolist()
                assert allowed == (by_the_rules(of, shut[n], answer) or [0])
                expected = [float(scores[n, t]) if t in allowed else -math.inf for t in range(16)]
                assert masked[n].tolist() == expected  # to the bit
                drawn.append(15 if answer[-1:] == [0] else chance.choice(allowed))  # 15 is padding
                answer.append(drawn[-1]) if answer[-1:] != [0] else None
            state.advance(np.array(drawn))
            ids = torch.cat([ids, torch.tensor(drawn).unsqueeze(1)], dim=1)
        assert len({len(answer) for answer in answers}) > 3  # rows end at different steps


def test_log_probabilities_by_hand() -> None:
    # equal logits, nothing seen, the answer "a", "c", end: the numbers, the break after 5 and the end are certain, and
    # 3|5, 4|9 are one of two; once "a" is named, 3 (for "ab") and 5 are one of two again
    answer = torch.tensor([[7, 3, 9, 8, 5, 9, 0, 6]])
    logits = torch.zeros(1, 8, 10, requires_grad=True)
    logs, entropy = NAMES.log_probabilities([[]], answer, logits)
    half = math.log(2)
    assert logs[0].tolist() == pytest.approx([0, -half, -half, 0, -half, 0, 0, 0], abs=1e-6)
    assert entropy[0].tolist() == pytest.approx([0, half, half, 0, half, 0, 0, 0], abs=1e-6)
    logs.sum().backward()
    # d log p(3) / d logits = [3] - softmax over {3, 5}: +1/2 and -1/2, 0 for the blocked tokens
    assert logits.grad[0, 1].tolist() == pytest.approx([0, 0, 0, 0.5, 0, -0.5, 0, 0, 0, 0], abs=1e-6)
    assert logits.grad[0, [0, 3, 5, 6, 7]].abs().max() == 0


def test_sampling_and_log_probabilities_allow_the_same() -> None:
    # at each place the log-probabilities are normalised over the tokens that may be drawn
    answers = torch.tensor([[7, 3, 9, 8, 5], [7, 5, 9, 8, 3]])
    logits = torch.randn(2, 5, 10)
    excluded: list[list[str]] = [[], ["a"]]
    logs, _ = NAMES.log_probabilities(excluded, answers, logits)
    prompt, process = torch.ones(2, 3, dtype=torch.long), trie.Mask(NAMES, excluded, 3)
    for place in range(5):
        scores = process(torch.cat([prompt, answers[:, :place]], dim=1), logits[:, place])
        chosen = scores.log_softmax(-1).gather(1, answers[:, place : place + 1])
        assert torch.allclose(chosen.squeeze(1), logs[:, place], atol=1e-6)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trie")
    release = data.open_release(small_release.write(folder / "release"))
    texts = [m["content"] for row in data.rows(release.folder, "sft", "train") for m in row["completion"]]
    chat_model.write(folder / "chat", texts)
    return folder


def held(world: Path) -> tuple[data.Release, generate.PolicyModel]:
    release, policy = data.open_release(world / "release"), generate.load(str(world / "chat"))
    return release, replace(policy, trie=trie.over(release, policy.tokenizer))


def test_an_untrained_model_writes_whole_lists_of_unseen_items(world: Path) -> None:
    release, policy = held(world)
    table = data.rows(release.folder, "grpo", "test")
    for row, text in zip(table, validation_scores.answers(policy, table).values(), strict=True):
        items = [entry.item for entry in answers.parse(text, release.find).entries]
        assert len(items) == len(set(items)) == release.k and None not in items and not set(items) & set(row["seen"])


def test_lists_are_learnt_in_the_tokens_in_which_they_are_written(world: Path) -> None:
    # a list of the release plus a last line break is a walk: ")\n" is one token here, and also in the trie
    _, policy = held(world)
    assert policy.trie is not None
    tokenizer = policy.tokenizer
    text = small_release.listed("gael")
    ids = tokenizer.encode(text + "\n", add_special_tokens=False)
    state = States(policy.trie, [["k"]], stride=16)
    assert along(state, *ids, tokenizer.eos_token_id) == [] and len(tokenizer.encode(")\n")) == 1


def test_a_held_mixture_of_experts_draws_and_scores_whole_lists(
    world: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    # TRL adds .001 of the experts' balance to the loss; our output used to lack that balance
    from transformers import MixtralConfig, MixtralForCausalLM
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    release, policy = held(world)
    facts = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    facts |= {"vocab_size": policy.model.config.vocab_size, "num_key_value_heads": 2, "num_local_experts": 4}
    torch.manual_seed(0)
    model = MixtralForCausalLM(MixtralConfig(**facts))
    model.generation_config.eos_token_id = policy.tokenizer.eos_token_id
    drawn: list[tuple[Any, list[str]]] = []
    scored = GRPOTrainer._generate_and_score_completions

    def watch(self: Any, inputs: Any) -> Any:
        output = scored(self, inputs)
        texts = policy.tokenizer.batch_decode(output["completion_ids"], skip_special_tokens=True)
        drawn.extend(zip(inputs, texts, strict=True))
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", watch)
    fixed = ["per_device_train_batch_size=4", "num_generations=4", "max_steps=2", "learning_rate=0.01"]
    fixed += ["warmup_steps=0", "logging_steps=1", "saferec.checks=1", "saferec.credit=rank"]
    config, table = settings.read("gdpo", fixed), data.rows(release.folder, "grpo", "train")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    info = gdpo.train(replace(policy, model=model), table, release, config, tmp_path / "gdpo", lambda _: {"score": 0.0})
    for row, text in drawn:
        items = [entry.item for entry in answers.parse(text, release.find).entries]
        assert len(set(items)) == release.k and None not in items and not set(items) & set(row["seen"])
    after = model.state_dict()
    assert info["steps"] == 2 and any(not torch.equal(before[name], after[name]) for name in before)
    # 4 experts, 2 of them for a token: Switch's balance is 2 where all are used equally, else more (arXiv 2101.03961)
    assert 2 - 1e-3 <= info["log"][0]["aux_loss"] <= 4


def test_evaluate_holds_a_model_to_names_where_it_is_asked_to(world: Path, tmp_path: Path) -> None:
    fixed = ["evaluate", "--release", world / "release", "--model", world / "chat", "--output", tmp_path]
    assert safecrs.main([*map(str, fixed), "--items", "trie"]) == 0
    (scored,) = [run for run in json.loads((tmp_path / "report.json").read_text())["runs"] if run["name"] == "model"]
    assert scored["metrics"]["length"]["mean"] == 4.0  # without a trie an untrained model names nothing


def test_a_name_that_would_not_be_read_as_its_item_is_left_out(world: Path) -> None:
    release, policy = held(world)
    assert policy.trie is not None and len(policy.trie.names) == 12
    # "Item A (2001)" twice, in other case: a list cannot say which of them it means
    twin = data.Item("twin", "film", "ITEM A", 2001)
    items = {**release.items, "twin": twin}
    index = titles.index((i.id, i.title, i.year, i.domain or "", ()) for i in items.values())
    tree = trie.over(replace(release, items=items, index=index), policy.tokenizer)
    assert len(tree.names) == 11 and not {"a", "twin"} & set(tree.places)


def test_what_either_of_two_who_ask_alike_has_seen_is_out_for_both(world: Path) -> None:
    release, policy = held(world)
    row = data.rows(release.folder, "grpo", "test")[0]
    excluded = rollouts._excluded(policy, [{**row, "seen": ["a"]}, {**row, "seen": ["b"]}])
    (ids,) = generate.prompt_tokens(policy.tokenizer, [row])
    assert excluded(ids) == ["a", "b"]

"""Answers of a model: its chat template, its files, and k unseen items for each request."""

from dataclasses import replace
from pathlib import Path

import pytest

from saferec_builder.core.errors import TrainingError
from tests.worlds import bars, chat_model, small_release
from training.data import rows
from training.decoding import generate
from training.decoding.validation_scores import answers
from training.trainers import sft

pytestmark = pytest.mark.training


def test_a_template_that_refuses_a_conversation_is_one_line(tmp_path: Path) -> None:
    # Gemma and others require the user's turn first; a recommender may have said hello before it
    refusing = "{% if messages[0].role != 'user' %}{{ raise_exception('roles must alternate') }}{% endif %}"
    turn = {"role": "user", "content": "Something like Item A (2001)?"}
    chat_model.write(tmp_path, [turn["content"]], template=refusing + chat_model.TEMPLATE)
    tokenizer = generate.load(str(tmp_path)).tokenizer
    assert len(generate.prompt_tokens(tokenizer, [{"prompt": [turn]}])) == 1
    with pytest.raises(TrainingError, match="refuses a conversation of the release .roles must alternate"):
        generate.prompt_tokens(tokenizer, [{"prompt": [{"role": "assistant", "content": "Hi."}, turn]}])
    for template, message in (("{{ raise_exception('none') }}", "refuses a conversation"), ("a", "changes the words")):
        tokenizer.chat_template = template
        with pytest.raises(TrainingError, match=message):  # for the end of an answer, on loading a model
            generate.answer_tokens(tokenizer, ["1. Item B (2002)"])


def test_thoughts_are_switched_off_alike_wherever_the_template_is_used(tmp_path: Path) -> None:
    question, answer = "Something like Item A (2001)?", "1. Item B (2002)"
    row = {"prompt": [{"role": "user", "content": question}], "completion": [{"role": "assistant", "content": answer}]}
    model = chat_model.write(tmp_path / "model", [question, answer], template=chat_model.THINKING)
    opening = "<|assistant|>\n"
    for off, start in (({"enable_thinking": False}, f"{opening}<think>\n\n</think>\n\n"), ({}, opening)):
        policy = generate.load(str(model), template=off)
        tokenizer = policy.tokenizer
        (prompt,) = generate.prompt_tokens(tokenizer, [row])  # validation, rollouts that we draw
        assert tokenizer.decode(prompt).endswith(f"?<|end|>\n{start}")
        # rollouts and servers render the saved and loaded template themselves
        tokenizer.save_pretrained(tmp_path / "saved")
        loaded = generate.AutoTokenizer.from_pretrained(tmp_path / "saved")
        assert loaded.apply_chat_template(row["prompt"], add_generation_prompt=True)["input_ids"] == prompt
        (taught,) = sft.examples(policy, [row])
        assert taught["input_ids"][: len(prompt)] == prompt
        learnt = [i for i, is_learnt in zip(taught["input_ids"], taught["completion_mask"], strict=True) if is_learnt]
        assert tokenizer.decode(learnt) == "1. Item B (2002)<|end|>\n"  # no thoughts, whatever the template puts there
    for name in ("enable_thoughts", "not a name"):
        with pytest.raises(TrainingError, match=f"chat template knows no '{name}'"):
            generate.load(str(model), template={name: False})


def test_a_template_that_opens_thoughts_closes_them_before_a_list(tmp_path: Path) -> None:
    always = chat_model.THINKING.replace("{% if enable_thinking", "{{ '<think>\\n' }}{% if enable_thinking")
    tokenizer = generate.load(str(chat_model.write(tmp_path, ["a film"], template=always))).tokenizer
    for _ in range(2):  # a second stage changes no more
        generate.close_thoughts(tokenizer)
        (prompt,) = generate.prompt_tokens(tokenizer, [{"prompt": [{"role": "user", "content": "a film"}]}])
        assert tokenizer.decode(prompt).endswith("<|assistant|>\n<think>\n\n</think>\n\n")


def test_half_a_model_is_one_line(tmp_path: Path) -> None:
    weights = chat_model.write(tmp_path, ["Something like Item A (2001)?"]) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])  # a copy that broke off
    with pytest.raises(TrainingError, match="cannot be loaded"):
        generate.load(str(tmp_path))


def test_it_answers_with_k_unseen_items_and_the_same_alone_or_in_a_batch(world: Path, policy) -> None:
    table = rows(world / "release", "grpo", "test")
    seen = [row["seen"] for row in table]
    drawn: list[bars.Bar] = []
    together, alone = (
        [*answers(replace(policy, batch=size), table, progress=bars.drawn(drawn)).values()] for size in (256, 1)
    )
    assert [(bar.total, bar.steps) for bar in drawn] == [(2, [2]), (2, [1, 1])]  # a step is a batch
    assert [len(answer) for answer in together] == [small_release.K] * 2
    assert all(len(set(a)) == len(a) and not set(a) & set(s) for a, s in zip(together, seen, strict=True))
    assert together == alone

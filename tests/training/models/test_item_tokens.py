"""A model of words gets a token for each item: it starts from the name's words, is trained, and restricts answers."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.conftest import Patch, Printed
from tests.worlds import chat_model, small_release
from training import data, safecrs
from training.decoding import generate
from training.decoding.constrained import Catalogue
from training.models import item_tokens

pytestmark = pytest.mark.training
THINKING_OFF = "all.saferec.chat_template_kwargs={enable_thinking: false}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    release = data.open_release(small_release.write(folder / "release"))
    texts = [m["content"] for row in data.rows(release.folder, "grpo", "train") for m in row["prompt"]]
    chat_model.write(folder / "tied", texts)
    chat_model.write(folder / "untied", texts, tied=False, template=chat_model.THINKING)
    return folder


def thinks_not(world: Path, model: Path) -> None:
    tokenizer = generate.load(str(model)).tokenizer  # as a server would load it
    (prompt,) = generate.prompt_tokens(tokenizer, data.rows(world / "release", "grpo", "test")[:1])
    assert tokenizer.decode(prompt).endswith("<think>\n\n</think>\n\n")


def said(capsys: Printed, *words: object) -> str:
    """Returns the error message of a command that fails."""
    assert safecrs.main([str(word) for word in words]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("kind", ["tied", "untied"])
def test_a_token_starts_as_the_average_of_its_name(world: Path, tmp_path: Path, kind: str) -> None:
    old = generate.load(str(world / kind))
    item_tokens.add(generate.load(str(world / kind)), tmp_path, data.open_release(world / "release"))
    new = generate.load(str(tmp_path))
    assert new.catalogue and new.catalogue.k == small_release.K and new.catalogue.end == old.tokenizer.eos_token_id
    spelling = old.tokenizer.encode("Item B (2002)", add_special_tokens=False)
    assert len(spelling) > 3 and new.tokenizer.encode("Item B (2002)") == [new.catalogue.tokens["b"]]
    for table in ("get_input_embeddings", "get_output_embeddings"):
        before, after = getattr(old.model, table)().weight, getattr(new.model, table)().weight
        assert torch.allclose(after[new.catalogue.tokens["b"]], before[spelling].mean(dim=0), atol=1e-6)
        assert torch.equal(after[: len(old.tokenizer)], before[: len(old.tokenizer)])  # the words are unchanged


def test_the_line_runs_with_the_tokens_of_another_model(world: Path, tmp_path: Path, capsys: Printed) -> None:
    argv = ["--release", world / "release", "--output", tmp_path / "runs", "--model", world / "untied"]
    changes = "both.saferec.lora=2 gdpo.saferec.lora=2 both.max_steps=2 both.learning_rate=0.1 both.warmup_steps=0"
    changes += " gdpo.max_steps=1 gdpo.num_generations=4 gdpo.per_device_train_batch_size=4"
    settings = [*changes.split(), THINKING_OFF]
    argv += ["--items", "tokens", *(word for change in settings for word in ("--set", change))]
    assert safecrs.main(["run", *map(str, argv)]) == 0, capsys.readouterr().err
    thinks_not(world, tmp_path / "runs" / "safe_gdpo")
    report = json.loads((tmp_path / "runs" / "report.json").read_text())
    metrics = {run["name"]: run["metrics"] for run in report["runs"]}
    assert "oracle_filter" in metrics and all(metrics[name]["length"]["mean"] == 4.0 for name in ("sft", "safe_gdpo"))
    start, taught = (generate.load(str(tmp_path / "runs" / name)) for name in ("start", "safe_sft"))
    assert isinstance(taught.catalogue, Catalogue)
    new_rows = {*taught.catalogue.tokens.values(), *taught.catalogue.traits.values(), taught.catalogue.nothing}
    for table in ("get_input_embeddings", "get_output_embeddings"):
        before, after = getattr(start.model, table)().weight, getattr(taught.model, table)().weight
        moved = (before != after).any(dim=1).nonzero().squeeze(1).tolist()
        assert moved and set(moved) <= new_rows  # apart from the adapter only the new rows


def test_a_thinking_model_is_trained_and_judged_with_thinking_switched_off(world, tmp_path, capsys) -> None:
    # a trie looked up the rollouts' prompts among those of validation (KeyError); with tokens: above
    texts = [m["content"] for row in data.rows(world / "release", "grpo", "train") for m in row["prompt"]]
    chat_model.write(tmp_path / "model", texts, template=chat_model.THINKING)
    argv = ["--release", world / "release", "--output", tmp_path / "runs", "--model", tmp_path / "model"]
    changes = "all.max_steps=1 all.warmup_steps=0 all.saferec.validate=1 all.saferec.checks=1 all.saferec.new_tokens=16"
    changes += " gdpo.num_generations=2 gdpo.per_device_train_batch_size=2 gdpo.max_completion_length=32 gdpo.beta=0.1"
    settings = [*changes.split(), THINKING_OFF, "all.model_init_kwargs={attn_implementation: eager}"]
    argv += ["--items", "trie", *(word for change in settings for word in ("--set", change))]
    assert safecrs.main(["run", *map(str, argv)]) == 0, capsys.readouterr().err
    thinks_not(world, tmp_path / "runs" / "safe_gdpo")


def test_stages_that_would_be_asked_otherwise_are_refused(world: Path, tmp_path: Path, capsys: Printed) -> None:
    argv = ("run", "--release", world / "release", "--output", tmp_path / "runs", "--model", world / "tied", "--set")
    for change in ("gdpo.saferec.chat_template_kwargs={a: 1}", "sft.model_init_kwargs={revision: other}"):
        assert "the stages have different" in said(capsys, *argv, change)
    assert not (tmp_path / "runs").exists()


def test_several_gpus_want_several_processes(world: Path, tmp_path: Path, monkeypatch: Patch, capsys: Printed) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    argv = ("sft", "--release", world / "release", "--model", "tiny", "--output", tmp_path / "out")
    assert "torchrun --nproc_per_node 8" in said(capsys, *argv)


def test_item_tokens_of_another_release_are_refused(world: Path, tmp_path: Path, capsys: Printed) -> None:
    model = tmp_path / "model"
    item_tokens.add(generate.load(str(world / "tied")), model, data.open_release(world / "release"))
    facts = json.loads((model / "items.json").read_text())
    facts["tokens"]["z"] = facts["tokens"].pop("a")
    (model / "items.json").write_text(json.dumps(facts))
    argv = ("evaluate", "--release", world / "release", "--model", model, "--output", tmp_path / "out")
    assert "its item tokens are of another release" in said(capsys, *argv)


def test_answers_end_where_the_template_ends_a_turn(world: Path, tmp_path: Path) -> None:
    """The end token of a base model is that of a text, which SFT on turns never teaches."""
    shutil.copytree(world / "tied", tmp_path / "base")
    facts = json.loads((tmp_path / "base" / "tokenizer_config.json").read_text())
    (tmp_path / "base" / "tokenizer_config.json").write_text(json.dumps(facts | {"eos_token": "<|pad|>"}))
    base, chat = generate.load(str(tmp_path / "base")), generate.load(str(world / "tied"))
    assert base.tokenizer.eos_token == chat.tokenizer.eos_token == "<|end|>"
    assert base.tokenizer.eos_token_id in base.model.generation_config.eos_token_id
    assert chat.model.generation_config.eos_token_id == chat.tokenizer.eos_token_id  # no change needed


def test_a_line_break_that_is_a_token_ends_no_answer(world: Path, tmp_path: Path) -> None:
    """Gemma's template ends a turn with <end_of_turn> and a line break, both added to the vocabulary."""
    from transformers import AutoTokenizer

    shutil.copytree(world / "tied", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer.add_tokens(["\n"])
    tokenizer.chat_template = chat_model.TEMPLATE.replace("<|end|>", "<|end|>\n")
    tokenizer.save_pretrained(tmp_path / "model")
    assert generate.load(str(tmp_path / "model")).tokenizer.eos_token == "<|end|>"


def test_what_comes_with_a_model_for_chatting_changes_no_answer(world: Path) -> None:
    rows = data.rows(data.open_release(world / "release").folder, "grpo", "test")
    policy = replace(generate.load(str(world / "tied")), new_tokens=12)
    ids = generate.prompt_tokens(policy.tokenizer, rows)

    def drawn() -> list[list[list[int]]]:
        torch.manual_seed(0)
        free = generate.draw(policy, ids, None, do_sample=True, temperature=1.0, top_k=0)
        return [free, generate.draw(policy, ids, None)]

    plain = drawn()
    advice = {"top_p": 0.05, "repetition_penalty": 5.0, "min_p": 0.9, "no_repeat_ngram_size": 1}
    for name, value in advice.items():
        setattr(policy.model.generation_config, name, value)
    assert drawn() == plain

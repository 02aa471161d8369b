"""Settings that do not go together are refused in one line each, before anything is loaded."""

import pytest

from saferec_builder.core.errors import TrainingError
from training import settings
from training.trainers.conflicts import refuse

TOKENS, TEXT = True, False
CASES = [  # command, item tokens, settings, message; most of these used to be ignored, or failed after hours
    ("gdpo", TEXT, "chat_template_kwargs={enable_thinking: false}", "expected saferec.chat_template_kwargs"),
    ("sft", TEXT, "chat_template_path=other.jinja", "which validation goes by too"),
    ("sft", TEXT, "model_init_kwargs={dtype: bfloat16}", "bfloat16: small steps are lost"),
    ("sft", TEXT, "model_init_kwargs={quantization_config: {load_in_4bit: true}} saferec.lora=8", "could not be kept"),
    ("sft", TEXT, "eval_strategy=steps", "expected saferec.checks"),
    ("gdpo", TEXT, "load_best_model_at_end=true", "best model on validation"),
    ("sft", TEXT, "push_to_hub=true", "would publish the last weights"),
    ("gdpo", TEXT, "output_dir=elsewhere", "expected --output"),
    ("gdpo", TEXT, "multi_objective_aggregation=sum_then_normalize", "expected --mode"),
    ("sft", TOKENS, "saferec.items=trie", "the items of this model are tokens"),
    ("gdpo", TEXT, "saferec.items=trie saferec.mask=false", "a trie is a mask"),
    ("sft", TOKENS, "loss_type=dft", "a loss of its own"),
    ("sft", TEXT, "assistant_only_loss=true", "expected completion_only_loss"),
    ("sft", TEXT, "packing=true packing_strategy=wrapped", "without a bound"),
    ("sft", TEXT, "packing=true model_init_kwargs={attn_implementation: sdpa}", "documents may read each other"),
    ("gdpo", TEXT, "saferec.thin=0.3", "in SFT alone"),
    ("gdpo", TOKENS, "saferec.mask=false", "an item may stand anywhere"),  # gdpo.yaml has credit: rank
    ("gdpo", TOKENS, "saferec.rewards=paper", "know no ranks"),
    ("gdpo", TEXT, "saferec.mode=grpo scale_rewards=false", "expected group"),
    ("gdpo", TEXT, "reward_weights=[1, 2]", "expected three"),
    ("gdpo", TEXT, "reward_weights=1", "expected three"),
    ("sft", TEXT, "model_init_kwargs=bf16", "expected {name: value}"),
    ("gdpo", TOKENS, "use_vllm=true", "use_vllm: what draws there knows no masks"),
    ("gdpo", TEXT, "saferec.items=trie cache_implementation=quantized", "cache_implementation: what draws there"),
    ("gdpo", TOKENS, "mask_truncated_completions=true", "has no token at its end"),  # trained with a loss of 0
    ("gdpo", TOKENS, "top_p=0.5", "top_p: a list that is held to the catalogue"),
]


@pytest.mark.parametrize(("verb", "tokens", "said", "told"), CASES)
def test_settings_that_do_not_go_together_are_refused(verb: str, tokens: bool, said: str, told: str) -> None:
    refuse(verb, settings.read(verb), tokens)  # the defaults go together
    changes = said.replace(", ", ",").replace(": ", ":").split()
    config = settings.read(verb, [change.replace(":", ": ") for change in changes])
    with pytest.raises(TrainingError, match=told):
        refuse(verb, config, tokens)


@pytest.mark.parametrize("said", ["use_vllm=true", "top_p=0.5", "eval_strategy=no", "saferec.credit=sequence"])
def test_what_goes_with_text_is_not_refused(said: str) -> None:
    refuse("gdpo", settings.read("gdpo", [said]), TEXT)
    flash = "model_init_kwargs={attn_implementation: flash_attention_2}"  # keeps packed documents apart
    refuse("sft", settings.read("sft", ["packing=true", flash]), TEXT)

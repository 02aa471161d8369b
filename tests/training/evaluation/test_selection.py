"""Which of two models validation keeps: the safer one, unless it loses more recall than the margin allows."""

import pytest

from training.evaluation.selection import choose, lost

UNSAFE = {"recall@4": 0.40, "recall_without@4": 0.43}


@pytest.mark.parametrize(
    ("sft", "gdpo", "chosen", "bound"),
    [  # recall, recall_without, svr_upper of both; .40 and .43 minus .02: .38 and .41 must be reached
        ((0.45, 0.42, 0.010), (0.45, 0.42, 0.008), "safe_gdpo", {}),
        ((0.45, 0.42, 0.008), (0.45, 0.42, 0.008), "safe_sft", {}),
        ((0.45, 0.42, 0.010), (0.45, 0.39, 0.001), "safe_sft", {"safe_gdpo": ("recall_without",)}),
        ((0.37, 0.39, 0.010), (0.39, 0.42, 0.020), "safe_gdpo", {"safe_sft": ("recall", "recall_without")}),
        ((0.45, 0.40, 0.010), (0.37, 0.42, 0.001), "safe_sft", {"safe_sft": 1, "safe_gdpo": 1}),
    ],
)
def test_the_safest_that_does_not_find_less_is_chosen(sft, gdpo, chosen, bound):
    names = ("recall@4", "recall_without@4", "svr_upper@4")
    stages = {name: dict(zip(names, values, strict=True)) for name, values in (("safe_sft", sft), ("safe_gdpo", gdpo))}
    choice = choose(UNSAFE, stages, 4)
    assert choice.name == chosen and set(choice.bound) == set(bound)
    assert all(choice.bound[name] == losses for name, losses in bound.items() if losses != 1)
    assert str(choice).startswith(chosen) and ("loses more than 0.02" in str(choice)) == bool(bound)


def test_exactly_the_margin_is_held():
    """One of 50 people less is a loss of .02. Float arithmetic refused more than half of the 50 such pairs."""
    for n in range(1, 51):
        reference, after = ({"recall@4": hits / 50, "recall_without@4": 1.0} for hits in (n, n - 1))
        assert lost(reference, after, 4) == ()
        assert lost(reference, {**after, "recall@4": n / 50 - 0.0201}, 4) == ("recall",)

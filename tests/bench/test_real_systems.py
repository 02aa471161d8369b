"""Tests of the real benchmark's figures: intervals over conversations, and the sections of docs/findings.md."""

from pathlib import Path

import numpy as np
import pytest

from tests.bench import bench_real_systems as bench, figures


def test_intervals_are_over_conversations_and_not_over_requests() -> None:
    """100 conversations, every second with 1 in all its 9 requests: the half width is 1.96 * .5 / sqrt(100) = .098, and
    not the .033 of 900 independent requests."""
    groups = np.repeat(np.arange(100.0), 9)
    value = np.where(groups % 2, 1.0, 0.0)
    value[groups == 99] = np.nan  # 49 of 99
    mean, low, high, n = bench.interval(value, groups)
    assert (mean, n) == (pytest.approx(49 / 99), 99) and 0.08 < (high - low) / 2 < 0.12
    # nothing was violated: at most 3.689 / 99, the gamma bound of 99 and not of 891
    assert bench.interval(value * 0, groups, share=True)[:3] == pytest.approx((0, 0, 3.689 / 99), abs=1e-4)
    # nobody found anything: it said 0.000 to 0.000. 1 - .025 ** (1 / 99) = .0366, as Clopper and Pearson's
    assert bench.interval(value * 0, groups)[:3] == pytest.approx((0, 0, 0.0366), abs=1e-4)
    assert bench.interval(value * 0, groups, paired=True)[1] == pytest.approx(-0.0366, abs=1e-4)
    assert bench.interval(value * np.nan, groups)[3] == 0


def test_intervals_of_trained_models_are_over_seeds_too() -> None:
    """A second seed with the same answers adds no information. Seeds with .49 and .51 everywhere leave the mean open
    by t(.975, 1) * .01414 / sqrt(2) = .127, for any number of conversations."""
    groups = np.arange(100.0)
    once = np.where(groups % 2, 1.0, 0.0)
    alone, twice = bench.interval(once, groups), bench.interval(np.stack([once, once]), groups)
    assert twice == pytest.approx(alone, abs=0.01)
    different = np.full((2, 100), 0.49) + np.array([[0.0], [0.02]])
    mean, low, high, n = bench.interval(different, groups)
    assert (mean, n) == (pytest.approx(0.5), 100) and (high - low) / 2 == pytest.approx(0.127, abs=0.001)
    wide = bench.interval(np.full((2, 100), 0.4) + np.array([[0.0], [0.2]]), groups)  # 1.27: no share is beyond 1
    assert wide[1:3] == (0, 1)


def test_a_section_is_written_anew_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "docs" / "findings.md"
    page.parent.mkdir()
    page.write_text("# Findings\n\nOf real data.\n\n## One\n\nold\n\n## Two\n\nkept\n")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    figures.section("One", "new\n")
    figures.section("Three", "more")
    assert page.read_text() == "# Findings\n\nOf real data.\n\n## One\n\nnew\n\n## Two\n\nkept\n\n## Three\n\nmore\n"

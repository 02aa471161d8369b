"""saferec.toml: every setting is shown, a wrong line is named."""

import re
from os.path import relpath
from pathlib import Path

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.storage import config, workspace as store


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[oracle]\nviolated_at = 7", "violated_at"),
        ("[orcale]", "orcale: nothing here has this name: expected one of dataset, taxonomy, oracle, "),
        ('[taxonomy]\npth = "my.toml"', r"taxonomy\.pth: .* expected one of path$"),
        ("[propose.models.small]\nprice = 1", r"models\.small\.price: .* expected one of model, base_url, key_env, "),
        ("[propose.models.small]\nextra_body = {n = 3}", r"models\.small\.extra_body: .*n is set by each request"),
        (
            '[propose.models.small]\nheaders = {Authorization = "s"}',
            r"headers: .*environment variable that key_env names$",
        ),
        ('[propose.models.small]\nheaders = {"A b" = "secret"}', r"headers: .*'A b': expected a header's name[^;]*$"),
        ("[dataset", "not a TOML file"),
        ('[reddit]\nsubreddits = {Films = "movie"}', r"reddit\.subreddits\.Films.*'film'.*found 'movie'"),
        ('[reddit]\nflair = "(requests"', r"reddit\.flair.*regular expression"),
        ('[reddit]\nrequest = "any(?= film)"', r"reddit\.request.*look-around"),
        ("[propose]\nuncertain = [0.7, 0.3]", r"propose\.uncertain.*the smaller one first"),
        ("[propose]\nuncertain = [30, 70]", r"propose\.uncertain.*from 0 to 1"),
        ("[oracle]\nviolated_at = 0.2\nclear_below = 0.9", r"oracle: clear_below must not be above violated_at"),
        ("[splits]\ntest_from = 2024-01-01", r"splits: validation_from and test_from go together"),
        ("[splits]\nvalidation_from = 2024-01-01\ntest_from = 2024-01-01", r"splits: .* must lie before test_from"),
        ("[review]\ndecoys = 0.6", r"review\.decoys: .* 0\.5; found '0\.6'"),
        ("[review]\naudit = 10", r"review\.audit: .* 1; found '10'"),
        ('[mine]\nlanguages = ["EN"]', r"mine\.languages\.0: 'EN' is no ISO.*small letters"),
    ],
)
def test_a_wrong_line_in_saferec_toml_is_named(workspace: store.Workspace, line: str, found: str) -> None:
    (workspace.root / "saferec.toml").write_text(line)
    with pytest.raises(UsageError, match=found):
        store.Workspace.open(workspace.root)


@pytest.mark.parametrize(("at", "meant"), [(".", "team"), ("team/review/old", "team"), ("other", None)])
def test_who_is_in_the_wrong_folder_is_told_of_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, meant: str | None
) -> None:
    """The workspace is a sibling or a parent folder; a sibling of the parent is not suggested."""
    for folder in ("team/review/old", "other/new"):
        (tmp_path / folder).mkdir(parents=True)
    store.make(tmp_path / "team", demo=False)
    monkeypatch.chdir(tmp_path / at)
    with pytest.raises(UsageError, match="is no workspace") as fault:
        store.Workspace.open(Path("."))
    assert (f"is one: say `-C {relpath(tmp_path / 'team')}`" in str(fault.value)) == bool(meant)
    assert ("run `saferec-build init .`" in str(fault.value)) == (meant is None)


def test_a_new_workspace_shows_every_setting():
    """saferec.toml lists every setting."""
    template = config.TEMPLATE.read_text()
    for name, section in config.Config.model_fields.items():
        if name != "demo":  # of demo workspaces only
            assert f"[{name}]" in template
            for field in section.annotation.model_fields:
                assert re.search(rf"^(?:# )?{field} = |^# \[propose.{field}", template, re.M), (name, field)

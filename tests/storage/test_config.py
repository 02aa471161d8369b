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
        ("[propose.models.gpt-4.1]\ninput = 1", r'models\.gpt-4\.1: .*wants quotes: \[propose\.models\."gpt-4\.1"\]$'),
        ("[propose.models.small]\nprice = 1", r"models\.small\.price: .* expected one of model, base_url, key_env, "),
        ("[propose.models.small]\nextra_body = {n = 3}", r"models\.small\.extra_body: .*n is set by each request"),
        (
            '[propose.models.small]\nheaders = {Authorization = "s"}',
            r"headers: .*environment variable that key_env names$",
        ),
        ('[propose.models.small]\nextra_body = {key = "secret", n = 2}', r"extra_body: n is set .*, leave it out$"),
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


# settings whose line in saferec.toml is an example: their default is none, or wider
EXAMPLES = {
    "dataset": ["licence", "repo"],
    "taxonomy": ["path"],
    "mine": ["languages"],
    "reddit": ["subreddits", "flair", "other_flair", "request"],
    "propose": ["model", "base_url", "prompt", "budget_usd", "jury", "models"],
    "splits": ["validation_from", "test_from"],
    "review": ["accounts", "gold"],
    "release": ["consent", "contact"],
    "store": ["url"],
}


def test_a_new_workspace_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    text = re.sub(r"^# (\[|\w+ = )", r"\1", config.TEMPLATE.read_text(), flags=re.MULTILINE)
    (tmp_path / "saferec.toml").write_text(text)
    shown, default = config.read(tmp_path), config.Config()
    assert shown.model_fields_set == default.model_dump().keys() - {"demo"}  # of demo workspaces only
    for name in shown.model_fields_set:
        section, values = getattr(shown, name), getattr(default, name).model_dump()
        changed = {field: value for field, value in section.model_dump().items() if value != values[field]}
        assert section.model_fields_set == values.keys()
        assert sorted(changed.keys() - {"name"}) == sorted(EXAMPLES.get(name, [])), name
    model = shown.propose.models["small"]
    default_like = {"key_env", "temperature"}
    assert config.Model.model_fields.keys() - model.model_fields_set == {"max_tokens"}  # a former name
    assert model.model_dump(include=default_like) == config.Model().model_dump(include=default_like)


# section -> the bounds of its numbers: `[` and `]` are allowed themselves, `(` and `)` are not
BOUNDS = {
    "Dataset": "k [1,100]",
    "Thresholds": "violated_at (0,1] clear_below (0,1] violated_from (0.5,1) clear_upto [0,0.5) class_from (0.5,1]"
    " sure (0.5,1) prior_yes (0,) prior_no (0,)",
    "Model": "input [0,) cached_input [0,) output [0,) max_completion_tokens [50,100000] max_tokens [50,100000]"
    " temperature [0,2]",
    "Proposer": "concurrency [1,1024] timeout (0,) retries [0,20] max_tokens [50,100000] budget_usd [0,)"
    " batch_factor (0,1] batch_poll (0,)",
    "Splits": "validation (0,0.5) test (0,0.5)",
    "Release": "min_seekers [1,)",
    "Reddit": "upvotes [0,) buckets [1,65536]",
    "Review": "readers [1,10] audit [0,1] recheck [0,1] decoys [0,0.5] controls [0,0.5] held_back [0,1]"
    " severe_a_day [0,) severe_in_a_row [0,) auto [0,1]",
}


def test_every_number_has_its_bounds() -> None:
    definitions = config.Config.model_json_schema()["$defs"]
    for name, text in BOUNDS.items():
        bounds = []
        for field, value in definitions[name]["properties"].items():
            kind = value["anyOf"][0] if "anyOf" in value else value
            low, above, high, below = map(kind.get, ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"))
            lower = f"({above:g}" if low is None and above is not None else f"[{low:g}" if low is not None else ""
            upper = f"{high:.6g}]" if high is not None else f"{below:g})" if below is not None else ")"
            bounds += [f"{field} {lower},{upper}"] if lower else []
        assert " ".join(bounds) == text, name


def test_a_value_at_its_bound_is_taken(tmp_path: Path) -> None:
    lines = ["[oracle]", "clear_below = 0.5", "violated_at = 0.5", "[propose]", "uncertain = [0, 1]", "[mine]"]
    lines += ['languages = ["en", "fil"]', "[splits]", "validation_from = 2024-01-01", "test_from = 2024-01-02"]
    lines += ["[propose.models.m]", 'headers = {X-Key = ""}', "extra_body = {top_p = 1}", "[reddit]", 'flair = "x"']
    (tmp_path / "saferec.toml").write_text("\n".join(lines))
    read = config.read(tmp_path)
    assert (read.rule.clear_below, read.propose.uncertain, read.mine.languages) == (0.5, (0, 1), ["en", "fil"])
    assert (read.propose.models["m"].headers, read.propose.models["m"].extra_body) == ({"X-Key": ""}, {"top_p": 1})
    (tmp_path / "saferec.toml").write_text("[propose]\nuncertain = [0.5, 0.5]")
    assert config.read(tmp_path).propose.uncertain == (0.5, 0.5)
    (tmp_path / "saferec.toml").write_text(f'[dataset]\nk = "{"x" * 200}"')
    with pytest.raises(UsageError, match=f"found '{'x' * 100}'$"):
        config.read(tmp_path)

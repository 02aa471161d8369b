"""Each column of a release has a documented meaning, and no meaning is left of a column that is gone."""

import tomllib

from exports import columns, formats
from tests import ROOT

SCHEMAS = formats.schemas({"gore": "gore"})


def test_each_column_has_a_meaning_and_none_is_left_over():
    meanings = tomllib.loads((ROOT / "exports/columns.toml").read_text(encoding="utf-8"))
    common = meanings.pop(columns.EVERY)
    for config, schema in SCHEMAS.items():
        assert all(columns.meaning(config, name) for name in schema.names)
        assert not meanings[config].keys() - {*schema.names}, config
    assert meanings.keys() == SCHEMAS.keys()
    counts = {name: sum(name in schema.names for schema in SCHEMAS.values()) for name in common}
    assert min(counts.values()) >= 2, counts  # a column of one config is described there


def test_what_a_withheld_label_and_list_look_like_is_said():
    """`withheld` was missing as a verdict and as a method, and empty lists were described as null."""
    assert all("withheld" in columns.meaning("labels", name) for name in ("verdict", "method"))
    assert columns.meaning("grpo", "truth").endswith(
        "empty where the text stays with its source, as is each list of items"
    )


def test_a_config_may_say_more_than_what_all_share():
    assert columns.meaning("labels", "trait") != columns.meaning("reviews", "trait")
    assert columns.meaning("sft", "canary") == columns.meaning("items", "canary")

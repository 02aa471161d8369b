"""Each column of a release has a meaning, and no meaning is of a column that is gone."""

import tomllib

from exports import columns, formats
from tests import ROOT

SCHEMAS = formats.schemas({"gore": "gore"})


def test_each_column_has_a_meaning_and_none_is_left_over():
    written = tomllib.loads((ROOT / "exports/columns.toml").read_text(encoding="utf-8"))
    every = written.pop(columns.EVERY)
    for config, schema in SCHEMAS.items():
        assert all(columns.meaning(config, name) for name in schema.names)
        assert not written[config].keys() - {*schema.names}, config
    assert written.keys() == SCHEMAS.keys()
    shared = {name: sum(name in schema.names for schema in SCHEMAS.values()) for name in every}
    assert min(shared.values()) >= 2, shared  # what one config alone has is said there


def test_what_a_withheld_label_and_list_look_like_is_said():
    """`withheld` was no verdict and no method there, and the lists were called null, which are empty."""
    assert all("withheld" in columns.meaning("labels", name) for name in ("verdict", "method"))
    assert columns.meaning("grpo", "truth").endswith(
        "empty where the text stays with its source, as is each list of items"
    )


def test_a_config_may_say_more_than_what_all_share():
    assert columns.meaning("labels", "trait") != columns.meaning("reviews", "trait")
    assert columns.meaning("sft", "canary") == columns.meaning("items", "canary")

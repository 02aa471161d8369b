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
    # a reader could take what a release does not tell for absent
    assert "withheld: " in columns.meaning("labels", "method")
    assert "which does not mean absent" in columns.meaning("labels", "verdict")

"""What stands beside the rows: Croissant that machines can read, provenance, digests, reviews of who agreed."""

import gc
import json
import resource
import sys
import warnings

import polars as pl
import pytest

from exports import folder as write, formats as rows, verify as proof
from exports.digests import RowDigest
from saferec_builder.storage import tables, workspace as store
from tests.worlds import release_world as world

RAI = {
    "dataCollection",
    "dataCollectionType",
    "dataCollectionRawData",
    "dataAnnotationProtocol",
    "dataAnnotationPlatform",
    "dataAnnotationAnalysis",
    "annotationsPerItem",
    "annotatorDemographics",
    "dataPreprocessingProtocol",
    "dataUseCases",
    "dataBiases",
    "dataLimitations",
    "personalSensitiveInformation",
    "dataSocialImpact",
    "dataReleaseMaintenancePlan",
}


def reviews(said, who, simulated=False):
    made = [
        {"review": f"{who}-{row['subject']}", "kind": "sensitivity", "subject": row["subject"], "trait": row["trait"]}
        | {"digest": row["digest"], "reviewer": who, "role": "reviewer", "verdict": row["verdict"], "form": row["form"]}
        | {"spans": row["spans"], "note": "for the team only", "seconds": 3.0, "tool": "files", "guideline": "g1"}
        | {"simulated": simulated}
        for row in said
    ]
    return pl.DataFrame(made, schema=tables.REVIEWS.schema)


@pytest.fixture
def ws(workspace):
    said = world.requests()[1]
    named = [row | {"reviews": [f"{who}-{row['subject']}" for who in ("ann", "bo")]} for row in said]
    world.fill(workspace, world.requests()[0], named)
    for who in ("ann", "bo"):
        store.append(workspace, tables.REVIEWS, reviews(said, who))
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace('# consent = ["ann"]', 'consent = ["ann"]'))
    return workspace


@pytest.fixture
def home(ws, cli):
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    return ws.releases / "1.0.0"


def test_only_who_agreed_is_released_and_not_by_name(home, ws, cli):
    found = pl.read_parquet(home / "data/reviews/train.parquet")
    assert found.height == 32 and found["reviewer"].n_unique() == 1
    assert set(found.columns).isdisjoint({"note", "seconds", "time", "tool", "review"})
    labels = pl.read_parquet(home / "data/labels/train.parquet")
    assert labels["reviewers"].to_list() == [2] * 32 and labels["basis"].n_unique() == 32
    for path in home.rglob("*"):
        content = b"" if path.is_dir() else path.read_bytes()
        assert b"for the team only" not in content and b"ann-c0" not in content
    assert cli("release", "1.0.1", "-C", ws.root).code == 0
    later = pl.read_parquet(ws.releases / "1.0.1/data/reviews/train.parquet")
    assert set(later["reviewer"]).isdisjoint(set(found["reviewer"]))  # a pseudonym is of one version
    assert pl.read_parquet(ws.releases / "1.0.1/data/labels/train.parquet")["basis"].equals(labels["basis"])
    assert write.read_manifest(ws.releases / "1.0.1").model_dump()["changes"] == []  # and is no change of what was said
    less = world.requests()[1][1] | {"spans": []}  # she says the same again, and marks no words
    store.append(ws, tables.REVIEWS, reviews([less], "ann").with_columns(review=pl.lit("again")))
    store.append(ws, tables.LABELS, world.labels(less | {"label": "again", "reviews": ["again", "bo-c001"]}))
    assert cli("release", "1.0.2", "-C", ws.root).code == 0
    changes = write.read_manifest(ws.releases / "1.0.2").model_dump()["changes"]
    assert "patch: rows of reviews changed" in changes


def test_of_items_too_only_what_counts_is_released(ws, cli):
    """Of five rows of ann's one stands: the others were set aside, handed back (an opt-out), not hers, of no trait."""
    store.append(ws, tables.CATALOG_ROWS, world.catalog().with_columns(plot=pl.lit("Blood.")))
    said = [("gore", "present", "reviewer", None), ("needles", None, "reviewer", "left the team")]
    said += [("*", None, "reviewer", tables.HANDED_BACK), ("torture", "present", "other", None)]
    said += [("no trait", "present", "reviewer", None)]
    made = [
        {"review": f"item-{n}", "kind": "item_flag", "subject": world.item("D"), "trait": trait, "verdict": verdict}
        | {
            "role": role,
            "note": note,
            "reviewer": "ann",
            "digest": "d",
            "spans": [],
            "tool": "files",
            "simulated": False,
        }
        for n, (trait, verdict, role, note) in enumerate(said)
    ]
    store.append(ws, tables.REVIEWS, pl.DataFrame(made, schema=tables.REVIEWS.schema))
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    found = pl.read_parquet(ws.releases / "1.0.0/data/reviews/catalog.parquet")
    assert found.select("subject", "trait", "verdict").rows() == [(world.item("D"), "gore", "present")]


def test_croissant_validates_and_reads(home):
    warnings.simplefilter("ignore")  # of the reader's own dependencies
    mlcroissant = pytest.importorskip("mlcroissant")
    data = mlcroissant.Dataset(str(home / "croissant.json"))
    assert not data.metadata.issues.errors
    said = json.loads((home / "croissant.json").read_text())
    assert {key.removeprefix("rai:") for key in said if key.startswith("rai:")} == RAI
    manifest = json.loads((home / "manifest.json").read_text())
    # no clock is asked: a date of publication would be that of somebody's request
    assert "datePublished" not in said and said["temporalCoverage"] == f"../{manifest['created']}"
    data_files = {p: f["sha256"] for p, f in manifest["files"].items() if p.startswith("data/")}
    assert {f["contentUrl"]: f["sha256"] for f in said["distribution"]} == data_files
    for config in ("sft", "grpo", "safecrs", "labels", "items"):
        split = rows.CONFIGS[config][-1]
        read = list(data.records(f"{config}-{split}"))
        frame = pl.read_parquet(home / f"data/{config}/{split}.parquet")
        first = frame.columns[0] if config != "safecrs" else "conversation"
        assert [r[f"{config}-{split}/{first}"].decode() for r in read] == frame[first].to_list()
    talk = next(iter(data.records("sft-test")))["sft-test/prompt"]
    prompt = pl.read_parquet(home / "data/sft/test.parquet")["prompt"][0]
    assert [t["sft-test/prompt/content"].decode() for t in talk] == [t["content"] for t in prompt]


def test_provenance_names_what_the_release_rests_on(home, ws, cli):
    said = json.loads((home / "provenance.json").read_text())
    assert {"source:messages", "source:csv", "taxonomy", "rule", "guideline:g1", "release:1.0.0"} <= set(said["entity"])
    assert said["activity"]["review"]["reviewers"] == 2 and said["wasDerivedFrom"] == {}
    assert cli("release", "1.0.1", "-C", ws.root).code == 0
    later = json.loads((ws.releases / "1.0.1/provenance.json").read_text())
    assert later["entity"]["release:1.0.0"]["sha256 of SHA256SUMS"] == proof.sha256(home / "SHA256SUMS")
    known = {*later["entity"], *later["activity"], *later["agent"]}
    for relation in ("used", "wasGeneratedBy", "wasAttributedTo", "wasDerivedFrom"):
        assert {name for pair in later[relation].values() for name in pair.values()} <= known


def test_row_digests_do_not_hang_on_how_a_table_is_cut():
    import pyarrow as pa

    schema = rows.schemas({"gore": "g"})["safecrs"]
    made = [
        {
            "prompt": [{"role": "user", "content": "é" * n}],
            "completion": None if n % 2 else [],
            "seen_titles": ["a", None],
        }
        | {"groundtruth_with_release_year": [["t", "1"]] * n, "constraints": {"g": n == 1 or None}}
        | {"conversation": str(n), "condition": None}
        for n in range(7)
    ]
    table = pa.Table.from_pylist(made, schema=schema)

    def digest(*parts):
        one = RowDigest()
        for part in parts:
            one.add(part)
        return one.hex()

    whole = digest(table)
    assert whole == digest(table.slice(0, 3), table.slice(3, 1), table.slice(4))
    assert whole == digest(pa.concat_tables([table.slice(0, 2), table.slice(2)]))
    other = [row | {"seen_titles": ["", None]} if n == 3 else row for n, row in enumerate(made)]
    assert digest(pa.Table.from_pylist(other, schema=schema)) != whole
    moved = [*made[1:], made[0]]
    assert digest(pa.Table.from_pylist(moved, schema=schema)) != whole


def test_a_row_that_changed_under_fitting_checksums_is_found(home, cli):
    import pyarrow.parquet as pq

    from tests.worlds.release_world import reseal

    reseal(home, "data/labels/test.parquet", lambda t: t.take(list(range(t.num_rows))[::-1]))
    ran = cli("verify", home)
    assert ran.code == 1 and "data/labels/test.parquet: its rows are not those" in ran.err
    assert pq.read_metadata(home / "data/labels/test.parquet").num_rows == 4


def test_a_build_without_room_says_so_once(tmp_path, monkeypatch):
    """Every file lacks room for its last byte; none is left for a destructor to close, which could only print."""
    told, most = [], resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    splits = ("train", "validation", "test")
    parts = [("labels", split, pl.DataFrame({"id": range(9)}).to_arrow()) for split in splits]
    size = next(iter(write.tables(tmp_path / "whole", parts, {"labels": splits}).files.values()))["bytes"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, most[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write.tables(tmp_path / "cut", parts, {"labels": splits})
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert told == []

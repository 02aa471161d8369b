"""The Croissant file of a release is valid and readable with mlcroissant."""

import json
import warnings

import polars as pl
import pyarrow as pa
import pytest

from exports import croissant, formats as rows
from exports.folder import facts_of

RAI = set(
    (
        "dataCollection dataCollectionType dataCollectionRawData dataAnnotationProtocol dataAnnotationPlatform"
        " dataAnnotationAnalysis annotationsPerItem annotatorDemographics dataPreprocessingProtocol dataUseCases"
        " dataBiases dataLimitations personalSensitiveInformation dataSocialImpact dataReleaseMaintenancePlan"
    ).split()
)


@pytest.mark.slow
def test_croissant_validates_and_reads(home):
    warnings.simplefilter("ignore")  # warnings of mlcroissant's dependencies
    mlcroissant = pytest.importorskip("mlcroissant")
    data = mlcroissant.Dataset(str(home / "croissant.json"))
    assert not data.metadata.issues.errors
    document = json.loads((home / "croissant.json").read_text())
    assert {key.removeprefix("rai:") for key in document if key.startswith("rai:")} == RAI
    manifest = json.loads((home / "manifest.json").read_text())
    # no clock is read: a date of publication would be the date of somebody's request
    assert "datePublished" not in document and document["temporalCoverage"] == f"../{manifest['created']}"
    fields = [field for records in document["recordSet"] for field in records["field"]]
    assert len(fields) > 50 and all(field["description"] for field in fields)
    data_files = {p: f["sha256"] for p, f in manifest["files"].items() if p.startswith("data/")}
    assert {f["contentUrl"]: f["sha256"] for f in document["distribution"]} == data_files
    for config in ("sft", "grpo", "safecrs", "labels", "items"):
        split = rows.CONFIGS[config][-1]
        read_records = list(data.records(f"{config}-{split}"))
        frame = pl.read_parquet(home / f"data/{config}/{split}.parquet")
        first = frame.columns[0] if config != "safecrs" else "conversation"
        assert [r[f"{config}-{split}/{first}"].decode() for r in read_records] == frame[first].to_list()
    messages = next(iter(data.records("sft-test")))["sft-test/prompt"]
    prompt = pl.read_parquet(home / "data/sft/test.parquet")["prompt"][0]
    assert [t["sft-test/prompt/content"].decode() for t in messages] == [t["content"] for t in prompt]


@pytest.mark.slow
def test_days_of_withheld_texts_are_in_no_stated_coverage(home):
    """It ended at the newest released text, and conversations whose day is withheld may be later."""
    for more, is_stated in (({}, True), ({"silent": ["reddit"]}, False), ({"put_back": ["reddit"]}, False)):
        assert (b"temporalCoverage" in croissant.render(facts_of(home) | more, {}, {})) == is_stated


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.bool_(), {"dataType": "sc:Boolean"}),
        (pa.int32(), {"dataType": "sc:Integer"}),
        (pa.float64(), {"dataType": "sc:Float"}),
        (pa.list_(pa.list_(pa.string())), {"dataType": "sc:Text", "isArray": True, "arrayShape": "-1,-1"}),
        (pa.struct({"it's": pa.int32()}), {"subField": [("c/f/it_s", "sc:Integer", r"$.'it\'s'")]}),
        (pa.list_(pa.struct({"a": pa.bool_()})), {"repeated": True, "subField": [("c/f/a", "sc:Boolean", "$.'a'")]}),
    ],
)
def test_a_column_is_described_by_its_type(kind, expected):
    field = croissant._field("c", "data/c/x.parquet", pa.field("f", kind), "what it means")
    source = {"fileObject": {"@id": "data/c/x.parquet"}, "extract": {"column": "f"}}
    if parts := field.get("subField"):
        assert all(part["source"].items() >= source.items() for part in parts)
        field["subField"] = [(p["@id"], p["dataType"], p["source"]["transform"]["jsonPath"]) for p in parts]
    head = {"@type": "cr:Field", "@id": "c/f", "name": "c/f", "description": "what it means"}
    assert field == head | expected | ({} if parts else {"source": source})

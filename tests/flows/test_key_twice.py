"""A key that comes twice in a JSON object is refused by every reader, as programs differ on which value counts.

All use one function; here are those that treat this error apart from others. Only the dumps of Reddit are read without
this check, which would take too long.
"""

import io
import json
import re
from pathlib import Path

import polars as pl
import pytest

from exports.report import page as report
from saferec_builder.core.errors import ReleaseError, SourceError
from saferec_builder.sources import doesthedogdie_api as fetch, saferec
from saferec_builder.storage import tables, workspace as store
from tests import ROOT
from tests.worlds import release_world as world
from tests.worlds.reddit_dump import submission
from tests.worlds.settings import review_settings

TALK = '[{"role": "user", "content": "A film without blood?"}]'


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_line_of_a_source_is_dropped_with_its_key_named(cli, workspace, tmp_path) -> None:
    """Of two users the last would count: removing the first would leave their conversation in."""
    lines = [
        f'{{"id": "a", "user": "ann", "user": "bo", "messages": {TALK}}}',
        f'{{"id": "b", "user": "bo", "messages": {TALK}}}',
        '{"id": "c", "messages": [{"role": "user", "content": "one", "content": "two"}]}',
    ]
    path = written(tmp_path / "chats.jsonl", "\n".join(lines))
    counts = cli("mine", "messages", path, "-C", workspace.root, "--json").json
    assert (counts["in"], counts["added"], counts["dropped"]) == (3, 1, {"key twice": 2})
    details = dict(store.read(workspace, tables.DROPS).select("place", "detail").rows())
    message = "the key '{}' comes twice in one object".format
    assert details == {"chats.jsonl:1": message("user"), "chats.jsonl:3": message("content")}


def test_json_text_in_a_cell_of_a_table(tmp_path) -> None:
    """`constraints` become gold: for a trait that is both true and false the last value would count."""
    row = {"prompt": "A film?", "completion": "Heat", "constraints": '{"a": true, "a": false}'}
    pl.DataFrame([row, row | {"constraints": '{"a": true}'}]).write_parquet(tmp_path / "x.parquet")
    mined = saferec.read(tmp_path / "x.parquet")
    assert (mined.rows.height, mined.drops["reason"].to_list()) == (1, ["key twice"])


def test_an_array_of_a_local_dataset(cli, workspace, tmp_path) -> None:
    """The library itself refuses such lines, but in an array it takes the last value."""
    pytest.importorskip("datasets")
    path = written(tmp_path / "x.json", f'[{{"id": "a", "user": "ann", "user": "bo", "messages": {TALK}}}]')
    run = cli("mine", "hf", path, "-C", workspace.root)
    assert run.code == 1 and f"mine hf {path}: the key 'user' comes twice" in run.err, run.err
    assert cli("mine", "hf", tmp_path, "-C", workspace.root).code == 1


@pytest.mark.slow
def test_the_dumps_of_reddit_are_read_as_they_are(cli, workspace, tmp_path) -> None:
    line = json.dumps(submission(1))[:-1] + ', "edited": false, "edited": true}'
    assert cli("mine", "reddit", written(tmp_path / "RS.ndjson", line), "-C", workspace.root, "--json").json["added"]


def test_gold_for_reviewers_names_the_line(cli, workspace, tmp_path) -> None:
    ws = world.fill(workspace, world.requests(4)[0], [])
    gold = written(tmp_path / "gold.jsonl", '{"conversation": "c001", "traits": ["gore"], "traits": []}\n')
    review_settings(ws.root, gold=str(gold))
    run = cli("review", "push", "--tool", "files", "--reviewer", "ann", "--all", "-C", ws.root)
    assert run.code == 1 and "gold.jsonl:1: the key 'traits' comes twice in one object: expected each once" in run.err


def test_a_report_of_runs_is_refused(tmp_path) -> None:
    text = '{"release": {"name": "n", "version": "1.0.0"}, "k": 1, "gold": false, "runs": []}'
    report.read_runs(written(tmp_path / "report.json", text))
    with pytest.raises(ReleaseError, match="the key 'k' comes twice"):
        report.read_runs(written(tmp_path / "report.json", text.replace('"k": 1', '"k": 2, "k": 1')))


def test_a_site_that_is_asked_for_warnings_is_not_asked_again(monkeypatch) -> None:
    monkeypatch.setattr(fetch._OPENER, "open", lambda *_, **__: io.BytesIO(b'{"items": [], "items": [1]}'))
    site = fetch.Site("k", pause=0, sleep=lambda _: None)
    with pytest.raises(SourceError, match="the key 'items' comes twice"):
        fetch.media(site, {"title": "Heat", "year": 1995, "domain": "film", "refs": []})
    assert site.asked == 1


def test_nothing_else_parses_json() -> None:
    """Other code uses errors.strict_json; after pydantic's own parser errors.fault_of has to check."""
    parsers = re.compile(
        r"json\.loads?\b|json_decode|JSONDecoder|\.json\(\)|from_json|ndjson\(|read_json\b|(?:model_)?validate_json"
    )
    calls = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for package in ("saferec_builder", "annotation", "exports", "training")
        for path in (ROOT / package).rglob("*.py")
        for match in parsers.finditer(path.read_text(encoding="utf-8"))
    }
    assert calls == {
        "saferec_builder/core/errors.py: json.loads",
        "saferec_builder/sources/reddit.py: ndjson(",  # Reddit's dumps
        "saferec_builder/sources/reddit.py: json.loads",
        "saferec_builder/storage/database.py: json_decode",  # columns of our own database, which this program wrote
        "annotation/tools/task_conversion.py: json.loads",  # of text that was parsed just before
        "exports/report/page.py: model_validate_json",
    }

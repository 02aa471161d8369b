"""A file is recognised by the fields that its source's reader requires, under any file name."""

import json
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.sources.readers import READERS, in_cells, likely
from tests.worlds.catalog_files import file
from tests.worlds.dialogues import TALK, tsv
from tests.worlds.source_lines import OFFICIAL, REDIAL

CCPE = "dialog_id,utterance_index,speaker,text\na,0,USER,quiet films\n"
PUBLISHED = '[{"conversationId": "a", "utterances": [{"index": 0, "speaker": "USER", "text": "quiet films"}]}]'
SESSION = (
    'Messages,User Rating,Assistant Rating\n"[{""type"": ""chat"", ""sender"": ""user"", ""message"": ""Hi""}]",5,4\n'
)
MESSAGES = '{"id": "a1", "messages": [{"role": "user", "content": "Hi"}]}'
FILES = [
    ("redial", json.dumps(REDIAL), False),
    ("inspired", tsv(TALK), True),
    ("ccpe", CCPE, True),
    ("ccpe", PUBLISHED, False),
    ("messages", MESSAGES, False),
    ("opendialkg", MESSAGES, False),
    ("opendialkg", SESSION, True),
    ("saferec", json.dumps(OFFICIAL), False),
]


@pytest.mark.parametrize(("source", "text", "table"), FILES)
def test_whatever_a_reader_takes_is_likely_its_own(tmp_path: Path, source: str, text: str, table: bool) -> None:
    path = file(tmp_path, "a copy", text)
    assert {source for source, *_ in FILES} == {*READERS}
    assert READERS[source](path).rows.height >= 1 and source in likely(path)
    assert in_cells(path, source) is table


@pytest.mark.parametrize(("text", "coding"), [(CCPE.title(), "utf-8"), (CCPE, "utf-16")])
def test_a_table_is_known_as_a_spreadsheet_saves_it(tmp_path: Path, text: str, coding: str) -> None:
    (tmp_path / "copy.csv").write_text(text, coding)
    assert likely(tmp_path / "copy.csv") == ["ccpe"]


def test_of_parquet_the_columns_count_and_other_files_are_of_nobody(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"prompt": ["Hi"]}).write_parquet(path)
    assert likely(path) == ["saferec"]
    pl.DataFrame({"text": ["prompt"]}).write_parquet(path)
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:-9])
    (tmp_path / "review.csv").write_text("task,text,note\n1,messages and prompts,\n")
    assert not any(map(likely, tmp_path.iterdir()))

"""Sources of conversations: real files if they are there, gzipped files, and damaged lines."""

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from saferec_builder.core.errors import SourceError
from saferec_builder.sources import ccpe, inspired, items_csv, messages, reddit, redial, saferec
from saferec_builder.storage import tables, workspace as store
from tests.worlds import reddit_dump
from tests.worlds.dialogues import INSPIRED, TALK, tsv
from tests.worlds.source_lines import OFFICIAL, REDIAL


@pytest.mark.slow
def test_real_inspired_and_ccpe(cli, workspace, real_data):
    summary = cli("mine", "inspired", real_data / "inspired", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["out"] + sum(summary["dropped"].values())) == (summary["in"], summary["in"])
    assert summary["added"] == 99 and set(summary["dropped"]) <= {"unknown speaker", "no id", "not a number"}
    summary = cli("mine", "ccpe", real_data / "ccpe", "-C", workspace.root, "--json").json
    assert (summary["in"], summary["added"], summary["dropped"]) == (502, 502, {})
    turns = store.read(workspace, tables.CONVERSATIONS).filter(source="ccpe")["turns"].list.len().sum()
    assert turns == 11_971  # every utterance is a turn


@pytest.mark.parametrize("cut", [False, True])
def test_a_gzipped_file_reads_as_the_plain_one_or_is_refused_whole(tmp_path, cut):
    plain = tmp_path / "items.csv"
    plain.write_text("domain;title;year\n" + "".join(f"film;Film {n};1999\n" for n in range(500)))
    packed = tmp_path / "items.csv.gz"
    content = gzip.compress(plain.read_bytes())
    packed.write_bytes(content[: len(content) // 2] if cut else content)
    if cut:
        with pytest.raises(SourceError, match="cut or no gzip file"):
            items_csv.read(packed)
    else:
        assert items_csv.read(packed).rows["title"].to_list() == items_csv.read(plain).rows["title"].to_list() != []


LINES = {
    "redial": json.dumps(REDIAL),
    "messages": json.dumps({"id": 1, "messages": [{"role": "user", "content": "hi"}], "seen": ["Heat (1995)"]}),
    "saferec": json.dumps(OFFICIAL),
    "inspired": tsv(TALK).splitlines()[2],
    "ccpe": "a,0,USER,quiet films",
    "reddit": reddit_dump.line(reddit_dump.comment(1, "s1")),
}
HEADS = {"inspired": "\t".join(INSPIRED), "ccpe": "dialog_id,utterance_index,speaker,text"}
READERS = {m.SOURCE: m.read for m in (redial, messages, saferec, inspired, ccpe)}
DAMAGE = st.lists(st.tuples(st.integers(0, 2_000), st.characters(codec="utf-8", exclude_characters="\n\r")), max_size=5)


@pytest.mark.slow
@pytest.mark.parametrize("source", LINES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(damage=DAMAGE, cut=st.integers(0, 2_000))
def test_no_mutated_line_stops_a_source_and_every_line_counts(tmp_path, source, damage, cut):
    line = list(LINES[source])
    for position, character in damage:
        line[position % len(line)] = character
    text = "".join(line)[: len(line) if cut > 1_000 else cut]
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join([*filter(None, [HEADS.get(source)]), text, LINES[source]]) + "\n", "utf-8", newline="")
    if source == "reddit":
        tally = reddit.Tally()
        batches = list(reddit.read(path, ["MovieSuggestions"], tally, path.name))
        passed, dropped = sum(frame.height for frame, _ in batches), sum(len(drops) for _, drops in batches)
        assert tally.lines == 2 and 1 <= tally.passed == passed
        assert passed + dropped == 2 or not text.strip() or '"MovieSuggestions"' not in text or _nested(text)
        return
    result = READERS[source](path)
    assert result.rows.height >= 1
    utterances = result.rows["turns"].list.len().sum() if source == "ccpe" else result.rows.height
    if source != "inspired":  # its sentences are joined into turns
        assert utterances + result.drops.height == 1 + bool(text.strip())


def _nested(text):
    """The wanted name is in the line, but not as its subreddit."""
    try:
        return json.loads(text).get("subreddit") != "MovieSuggestions"
    except ValueError:
        return False

"""CCPE's dialogues."""

import csv
import io

from saferec_builder.sources import ccpe
from tests.worlds.dialogues import said


def test_ccpe_keeps_the_numbers_of_its_utterances(tmp_path):
    path = tmp_path / "ccpe.csv"
    rows = [("a", 0, "ASSISTANT", "what do you like"), ("a", 2, "USER", "quiet, slow films"), ("a", 1, "USER", "hm")]
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("dialog_id", "utterance_index", "speaker", "text"), *rows, ("b", 0, "USER", "")])
    path.write_text(buffer.getvalue())
    result = ccpe.read(path)
    turns = [("recommender", "what do you like", []), ("seeker", "hm", []), ("seeker", "quiet, slow films", [])]
    assert said(result.rows)[0] == turns
    assert result.rows["recommended"].to_list() == [[], []]

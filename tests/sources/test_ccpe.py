"""CCPE's dialogues."""

from saferec_builder.sources import ccpe
from tests.worlds.dialogues import said


def test_ccpe_keeps_the_numbers_of_its_utterances(tmp_path):
    path = tmp_path / "ccpe.csv"
    rows = ("a,0,ASSISTANT,what do you like", 'a,2,USER,"quiet, slow films"', "a,1,USER,hm", "b,0,USER,")
    path.write_text("\n".join(("dialog_id,utterance_index,speaker,text", *rows)))
    result = ccpe.read(path)
    turns = [("recommender", "what do you like", []), ("seeker", "hm", []), ("seeker", "quiet, slow films", [])]
    assert said(result.rows)[0] == turns
    assert result.rows["recommended"].to_list() == [[], []]

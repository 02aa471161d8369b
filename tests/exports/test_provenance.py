"""What stands beside the rows: Croissant that machines can read, provenance, digests, reviews of who agreed."""

import json

from exports import verify as proof


def test_provenance_names_what_the_release_rests_on(home, reviewed, cli):
    said = json.loads((home / "provenance.json").read_text())
    assert {"source:messages", "source:csv", "taxonomy", "rule", "guideline:g1", "release:1.0.0"} <= set(said["entity"])
    assert said["activity"]["review"]["reviewers"] == 2 and said["wasDerivedFrom"] == {}
    assert cli("release", "1.0.1", "-C", reviewed.root).code == 0
    later = json.loads((reviewed.releases / "1.0.1/provenance.json").read_text())
    assert later["entity"]["release:1.0.0"]["sha256 of SHA256SUMS"] == proof.sha256(home / "SHA256SUMS")
    known = {*later["entity"], *later["activity"], *later["agent"]}
    for relation in ("used", "wasGeneratedBy", "wasAttributedTo", "wasDerivedFrom"):
        assert {name for pair in later[relation].values() for name in pair.values()} <= known

"""Labels that people gave in this workspace, as the truth that proposers are measured against."""

from saferec_builder.proposing.calibration import Truth
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.storage import tables, workspace


def labels(corpus: Corpus) -> Truth:
    """Labels that people gave. A label by the method `auto` is a proposer's own claim, and would only confirm it."""
    frame = tables.last(workspace.read(corpus.ws, tables.LABELS).filter(kind=corpus.kind), "subject", "trait")
    frame = frame.filter(frame["method"] != "auto")
    current = {(s.subject, s.digest) for s in corpus.subjects}
    rows = [r for r in frame.to_dicts() if (r["subject"], r["digest"]) in current]
    present = {(r["subject"], r["trait"]): r for r in rows if r["verdict"] == "present"}
    spans = {u: [(s["turn"], s["start"], s["end"]) for s in r["spans"]] for u, r in present.items() if r["spans"]}
    absent = {(r["subject"], r["trait"]) for r in rows if r["verdict"] == "absent"}
    return Truth({u: r["form"] for u, r in present.items()}, absent, (), spans)

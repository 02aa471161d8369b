"""What the rules find in a sentence."""

from saferec_builder.proposing.rules import matcher as rules


def found(text: str, verdict: str = "present") -> dict[str, list[str]]:
    """trait -> quotes with this verdict."""
    hits: dict[str, list[str]] = {}
    for hit in rules.read(text):
        if hit.verdict == verdict:
            hits.setdefault(hit.trait, []).append(text[hit.start : hit.end])
    return hits

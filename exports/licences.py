"""What each source lets a release pass on: its text, only what points to it, or nothing."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from saferec_builder.core.errors import ReleaseError


@dataclass(frozen=True)
class Licence:
    name: str
    share: str  # text: may be passed on | ids: only what points to it | no | verdicts: statements, never passed on
    say: str = ""  # what its licence asks to be said


_FILE = Path(__file__).with_name("licences.toml")
LICENCES = {source: Licence(**row) for source, row in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()}


def of(source: str) -> Licence:
    """A source that nobody wrote down here keeps its text; `hf:NAME` is one of `hf`."""
    return (
        LICENCES.get(source) or LICENCES.get(_kind(source)) or Licence("unknown to this program: see the source", "ids")
    )


def _kind(source: str) -> str:
    return source.partition(":")[0]


def shares(source: str) -> str:
    """text, ids or no."""
    return of(source).share


def _closed(sources: Iterable[str], share: str, allowed: Iterable[str]) -> list[str]:
    """Those that share no more than this, unless they are allowed by name or by kind."""
    words = {*allowed}
    return sorted({s for s in sources if shares(s) == share and not words & {s, _kind(s)}})


def silent(sources: Iterable[str], allowed: Iterable[str] = ()) -> list[str]:
    """Those whose text stays with them."""
    return _closed(sources, "ids", allowed)


def check_licences(sources: Iterable[str], allowed: Iterable[str]) -> None:
    """Stops where a source of conversations or items may not be passed on and the publisher has not said otherwise."""
    closed = _closed(sources, "no", allowed)
    if closed:
        named = "; ".join(f"{s}: {of(s).name}" for s in closed)
        raise ReleaseError(
            f"release: the licence of {len(closed)} sources does not let you pass them on ({named}): leave them out, or"
            f" say --allow {closed[0]} if you have permission"
        )


def terms(sources: Iterable[str]) -> dict[str, dict[str, str]]:
    """source -> its terms, for the manifest and the card."""
    found = {s: of(s) for s in sorted(set(sources))}
    return {s: {"licence": x.name, "share": x.share, "say": x.say} for s, x in found.items()}

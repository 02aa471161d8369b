"""Says what a release may pass on of each source: its text, only references to it, or nothing."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from saferec_builder.core.errors import ReleaseError

Terms = dict[str, str]  # licence, share, say: as the file describes them
LICENCES: dict[str, Terms] = tomllib.loads(Path(__file__).with_name("licences.toml").read_text(encoding="utf-8"))


def of(source: str) -> Terms:
    """Returns the terms of a source; `hf:NAME` has those of `hf`. An unlisted source keeps its text (ids)."""
    unlisted = {"licence": "unknown to this program: see the source", "share": "ids"}
    terms = LICENCES.get(source) or LICENCES.get(source.partition(":")[0], unlisted)
    return {name: terms.get(name, "") for name in ("licence", "share", "say")}


def _closed(sources: Iterable[str], share: str, allowed: Iterable[str]) -> list[str]:
    """Returns the sources with exactly this `share`, unless they are allowed by name or by kind."""
    exceptions = {*allowed}
    return sorted({s for s in sources if of(s)["share"] == share and not exceptions & {s, s.partition(":")[0]}})


def silent(sources: Iterable[str], allowed: Iterable[str] = ()) -> list[str]:
    """Returns the sources that keep their texts."""
    return _closed(sources, "ids", allowed)


def forbidden(sources: Iterable[str], allowed: Iterable[str] = ()) -> list[str]:
    """Returns the sources that may not be passed on at all."""
    return _closed(sources, "no", allowed)


def check_licences(sources: Iterable[str], allowed: Iterable[str]) -> None:
    """Raises ReleaseError if a source may not be passed on and the publisher has not allowed it."""
    if closed := forbidden(sources, allowed):
        names = "; ".join(f"{s}: {of(s)['licence']}" for s in closed)
        raise ReleaseError(
            f"release: the licence of {len(closed)} sources does not let you pass them on ({names}): leave them out, or"
            f" say --allow {closed[0]} if you have permission"
        )

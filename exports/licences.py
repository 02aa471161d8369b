"""What each source lets a release pass on: its text, only what points to it, or nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from saferec_builder.core.errors import ReleaseError


@dataclass(frozen=True)
class Licence:
    name: str
    share: str  # text: may be passed on | ids: only what points to it | no
    say: str = ""  # what its licence asks to be said


LICENCES: Mapping[str, Licence] = {
    "redial": Licence("CC BY 4.0", "text", "Li et al., Towards Deep Conversational Recommendations, 2018"),
    "ccpe": Licence("CC BY 4.0", "text", "Radlinski et al., Coached Conversational Preference Elicitation, 2019"),
    "inspired": Licence("not stated by its authors", "no", "Hayati et al., INSPIRED, 2020"),
    "reddit": Licence("their authors' own; the platform's terms", "ids"),
    "hf": Licence("see the dataset's own card", "ids"),
    "saferec": Licence("not stated by its authors", "ids"),
    "messages": Licence("the publisher's own", "text"),
    "demo": Licence("CC0 1.0, invented for demos and tests", "text"),
    "movielens": Licence(
        "GroupLens terms: same conditions, not for commercial use", "text", "Harper and Konstan, 2015"
    ),
    "csv": Licence("the publisher's own", "text"),
    "apart": Licence("the publisher's own rulings on which items are one", "text"),
    "esrb": Licence("ratings are facts stated by the ESRB", "text"),
    "imdb": Licence("IMDb non-commercial terms", "no", "Information courtesy of IMDb (https://www.imdb.com)"),
}


def shares(source: str) -> str:
    """text, ids or no; a source that nobody wrote down here keeps its text."""
    return LICENCES[source].share if source in LICENCES else "ids"


def check_licences(sources: Iterable[str], allowed: Iterable[str]) -> None:
    """Stops where a source of conversations or items may not be passed on and the publisher has not said otherwise."""
    closed = sorted({s for s in sources if shares(s) == "no"} - set(allowed))
    if closed:
        named = "; ".join(f"{s}: {LICENCES[s].name}" for s in closed)
        raise ReleaseError(
            f"release: the licence of {len(closed)} sources does not let you pass them on ({named}): leave them out, or"
            f" say --allow {closed[0]} if you have permission"
        )


def terms(sources: Iterable[str]) -> dict[str, dict[str, str]]:
    """source -> its terms, for the manifest and the card."""
    unknown = Licence("unknown to this program: see the source", "ids")
    found = {s: LICENCES.get(s, unknown) for s in sorted(set(sources))}
    return {s: {"licence": x.name, "share": x.share, "say": x.say} for s, x in found.items()}

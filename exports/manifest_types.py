"""Types of manifest.json, from which the card, croissant.json and provenance.json of a release are made."""

import re
from typing import Annotated, NotRequired

from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12


class Agreement(TypedDict):
    alpha: float | None  # Krippendorff's, of the sensitivity labels; None where it cannot be computed
    units: int  # judged by two reviewers or more


class RecallBound(TypedDict):
    share: float | None  # of all sensitivities, at most this share is missed by the labels
    certified: bool
    words: str
    of_all: NotRequired[str]  # the share of all conversations that has the trait, in words


class Statement(TypedDict, total=False):
    """What certificate.json states about all conversations together."""

    subjects: int  # conversations in the workspace that are not withheld
    claimed: int  # conversations that are all read by people
    zone: int  # conversations that the audit speaks for
    audited: int
    open: int  # proposed or drawn, without a sure label: they count as missed
    confidence: float
    any: str  # the bound for any sensitivity, in words
    together: list[str]  # traits whose bounds hold at once
    truth: str  # what the readers themselves miss, measured by blind controls
    of_all: str  # the share of all conversations with any sensitivity, in words
    plots: int  # items whose plot was to be read, if there are any
    plots_zone: int  # items that the audit of plots speaks for
    plots_audited: int
    any_flag: str  # the bound for any flag, in words


class FileEntry(TypedDict):
    sha256: str
    bytes: int
    rows: int | None


class Stamp(TypedDict):
    version: str
    sha256: str  # of that release's SHA256SUMS


def _plain(name: str) -> str:
    """Checks a config or split, which becomes a file name: a foreign release must not point elsewhere."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError(f"{name[:40]!r} is no name of a config or split")
    return name


Name = Annotated[str, AfterValidator(_plain)]
Counts = dict[Name, dict[Name, int]]  # config -> split -> rows


class Combinations(TypedDict):
    """What is withheld so that each combination of traits is shared by `k` people or more."""

    k: int
    people: int  # people with a trait
    withheld_of: int  # people of whom at least one trait is withheld
    traits: int  # traits of all conversations together
    withheld: int  # of these traits
    left_out: int  # conversations


@with_config(ConfigDict(extra="allow", strict=True))
class Facts(TypedDict, total=False):
    """The keys of manifest.json. A file of a newer program may have more; one of an older program may lack those in
    OLDER, which `folder.facts_of` adds."""

    name: str
    canary: str | None  # the GUID in every row
    schema: int
    created: str | None  # day of the newest request whose text is released
    url: str
    k: int
    licence: str | None
    contact: str | None
    code_version: str
    taxonomy_digest: str
    traits: list[str]
    official: dict[str, str]
    rule: dict[str, float]
    sources: list[str]
    silent: list[str]
    linkable: dict[str, float] | None  # features -> share of the conversations that they identify in their source
    min_seekers: int
    proposers: dict[str, int]  # -> its proposals
    item_flags: dict[str, int] | None  # -> those of its proposals that are flags of items
    short_of_clear: int
    demo: bool
    simulated: bool
    licences: dict[str, dict[str, str]]  # source -> licence, share, say
    split_rule: str
    split_starts: list[str | None]
    parent: str | None
    withdrawn: dict[str, str]
    labels: dict[str, dict[str, int]]  # trait -> verdict -> labels
    conditions: dict[str, int]
    sentences: str | None  # digest of the sentence banks behind `injected_traits`
    makers: dict[str, int]
    unknown: dict[str, float]  # trait -> share of the catalog
    dropped: dict[str, int]
    unreviewed: int
    version: str
    keeps_unreviewed: bool
    injected_traits: list[str]
    injected_unclear: dict[str, int]  # injected trait that no item is clear for -> rows that disclose it
    agreement: dict[str, Agreement]
    missed: dict[str, RecallBound]
    certificate: Statement | None  # None: nobody has reviewed
    withheld: list[str]
    combinations: Combinations | None  # None: all texts are released, and people can be found by these anyway
    no_safety: bool
    safety_rows: dict[str, int]  # where a sensitivity is told (in_request, later, injected) -> rows with a clear answer
    counts: Counts
    row_digests: dict[Name, dict[Name, str]]
    changes: list[str]
    plot: str | None
    files: dict[str, FileEntry]
    put_back: list[str]  # in a rebuilt release: the sources whose texts were restored
    rebuilt_from: Stamp  # in a rebuilt release only


OLDER: Facts = {
    "safety_rows": {},
    "canary": None,
    "item_flags": None,
    "linkable": None,
    "sentences": None,
    "injected_unclear": {},
    "certificate": None,
    "combinations": None,
    "put_back": [],
}
NEEDED = Facts.__annotations__.keys() - OLDER.keys() - {"rebuilt_from"}
CHECKED = TypeAdapter(Facts)  # raises where a value has another type

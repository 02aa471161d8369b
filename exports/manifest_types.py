"""What manifest.json says of a release, as types: the card, croissant.json and provenance.json are made from it."""

from typing import NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12


class Agreement(TypedDict):
    alpha: float | None  # Krippendorff's, of the sensitivity labels; None where it cannot be told
    units: int  # that two reviewers judged


class RecallBound(TypedDict):
    share: float | None  # of the sensitivities, what the labels miss at most
    certified: bool
    words: str
    of_all: NotRequired[str]  # which share of all conversations has it, in words


class Statement(TypedDict, total=False):
    """What certificate.json states of the conversations as a whole."""

    subjects: int  # conversations in the workspace that nobody withholds
    claimed: int  # each of them is read
    zone: int  # what the audit speaks for
    audited: int
    open: int  # proposed or drawn, and without a sure label: they count as missed
    confidence: float
    any: str  # what is missed of any sensitivity, in words
    together: list[str]  # traits whose bounds hold at once
    truth: str  # what blind controls say of what the readers themselves miss
    of_all: str  # which share of all conversations has any sensitivity, in words
    plots: int  # items whose plot was to be read, where there are any
    plots_zone: int  # what the audit of plots speaks for
    plots_audited: int
    any_flag: str  # what is missed of any flag, in words


class FileEntry(TypedDict):
    sha256: str
    bytes: int
    rows: int | None


class Stamp(TypedDict):
    version: str
    sha256: str  # of that release's SHA256SUMS


Counts = dict[str, dict[str, int]]  # config -> split -> rows


class Combinations(TypedDict):
    """What is withheld so that every combination of traits is told of `k` people or more."""

    k: int
    people: int  # with a trait
    withheld_of: int  # of so many of them something
    traits: int  # of all of them together
    withheld: int
    left_out: int  # conversations


@with_config(ConfigDict(extra="allow", strict=True))
class Facts(TypedDict, total=False):
    """The keys of the file; what an older program wrote may lack some, a newer one may have others."""

    name: str
    canary: str | None  # the GUID that stands in every row
    schema: int
    created: str | None  # the newest request
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
    linkable: dict[str, float] | None  # what finds a text in its source -> share of the conversations that it finds
    min_seekers: int
    proposers: dict[str, int]
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
    sentences: str | None  # digest of the banks that `injected_traits` were injected from
    makers: dict[str, int]
    unknown: dict[str, float]  # trait -> share of the catalog
    dropped: dict[str, int]
    unreviewed: int
    version: str
    keeps_unreviewed: bool
    injected_traits: list[str]
    injected_unclear: dict[str, int]  # of these, those that no item is clear for -> the rows that disclose them
    agreement: dict[str, Agreement]
    missed: dict[str, RecallBound]
    certificate: Statement | None  # None: nobody has reviewed
    withheld: list[str]
    combinations: Combinations | None  # None: texts are in it, by which people can be found anyway
    no_safety: bool
    counts: Counts
    row_digests: dict[str, dict[str, str]]
    changes: list[str]
    plot: str | None
    files: dict[str, FileEntry]
    put_back: list[str]  # of a rebuilt release: the sources whose texts are back
    rebuilt_from: Stamp


CHECKED = TypeAdapter(Facts)  # raises where one of them is of another type

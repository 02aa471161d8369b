"""The taxonomy: which sensitivities exist, and what in a catalog speaks for or against each.

Reads a TOML file (the embedded traits.toml or the user's own); only the standard library.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path

from saferec_builder.core.errors import UsageError, near
from saferec_builder.core.plain_files import read_plain

GUIDE = ("sex", "violence", "profanity", "drugs", "frightening")
APPLIES = ("strong", "weak", "none")
ESRB = (  # the descriptors of its raters; "mild", "strong" or "intense" may precede each
    *("alcohol_reference", "animated_blood", "blood", "blood_and_gore", "cartoon_violence", "comic_mischief"),
    *("crude_humor", "drug_reference", "fantasy_violence", "gambling", "language", "lyrics", "mature_humor", "nudity"),
    *("partial_nudity", "real_gambling", "sexual_content", "sexual_themes", "sexual_violence", "simulated_gambling"),
    *("suggestive_themes", "tobacco_reference", "use_of_alcohol", "use_of_alcohol_and_tobacco", "use_of_drugs"),
    *("use_of_drugs_and_alcohol", "use_of_tobacco", "violence", "violent_references"),
)
DEGREE = re.compile(r"^(?:mild|strong|intense)_")
FIELDS = ("slug", "name", "severe", "definition", "hint", "topics", "core", "guide", "esrb_applies", "esrb", "safecrs")
TOP = ("version", "trait")  # keys of the file; other keys are the author's notes
Table = dict[str, object]  # of a TOML file, not yet checked
EMBEDDED = Path(__file__).with_name("traits.toml")


@dataclass(frozen=True)
class Trait:
    slug: str
    name: str
    severe: bool
    definition: str
    hint: str
    topics: tuple[str, ...]
    core: tuple[str, ...]
    guide_applies: str
    guide: tuple[float, ...]  # weights in the order of GUIDE
    esrb_applies: str
    esrb: dict[str, float]
    safecrs: str

    @property
    def wording(self) -> str:
        """A digest of what a model is told about the trait: slug, definition and hint."""
        return hashlib.blake2b("\0".join((self.slug, self.definition, self.hint)).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Taxonomy:
    version: str
    digest: str  # of all wordings, stamped on proposals, reviews and releases; comments and weights do not count
    traits: tuple[Trait, ...]

    @cached_property
    def slugs(self) -> tuple[str, ...]:
        return tuple(t.slug for t in self.traits)

    @property
    def severe(self) -> frozenset[str]:
        """The slugs of the traits with a warning and a cap in review."""
        return frozenset(t.slug for t in self.traits if t.severe)

    def __getitem__(self, slug: str) -> Trait:
        for trait in self.traits:
            if trait.slug == slug:
                return trait
        raise unknown_trait(slug, self.slugs)

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that any trait asks about, in first-seen order."""
        return tuple(dict.fromkeys(topic for t in self.traits for topic in t.topics))


def unknown_trait(slug: str, slugs: Iterable[str]) -> UsageError:
    """The error for a slug that no trait has; it names the most similar slug, if any, and all slugs."""
    return UsageError(f"unknown trait {slug!r}: {near(slug, slugs)}")


def load(path: Path | None = None) -> Taxonomy:
    """The taxonomy in `path`, or the embedded one; an error names the file, the trait and the field.

    The file is read at each call, so that an edit is seen; it is parsed again only when its bytes have changed.
    """
    path = path or EMBEDDED
    try:
        return _parsed(path, read_plain(path))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such taxonomy file") from None
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read: {fault.strerror}") from None


@lru_cache(maxsize=8)
def _parsed(path: Path, content: bytes) -> Taxonomy:
    try:
        data = tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as fault:  # no TOML, no UTF-8, huge numbers or too deep nesting
        raise UsageError(f"{path}: not a TOML file: {fault}") from None
    rows = data.get("trait", [])
    if slips := [key for key in data if key not in TOP and get_close_matches(key.lower(), TOP, 1)]:
        raise UsageError(f"{path}: {slips[0]!r} is read by nothing: {near(slips[0], TOP)}")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path}: no [[trait]] table: found [trait], expected two brackets around it")
    traits = tuple(_trait(path, n, row) for n, row in enumerate(rows, 1))
    slugs = [t.slug for t in traits]
    repeated = sorted({s for s in slugs if slugs.count(s) > 1})
    if not traits or repeated:
        raise UsageError(f"{path}: {'no [[trait]] table' if not traits else f'slug {repeated[0]!r} stands twice'}")
    wordings = "\0".join(sorted(t.wording for t in traits)).encode()
    return Taxonomy(str(data.get("version", "0")), hashlib.blake2b(wordings, digest_size=8).hexdigest(), traits)


def _trait(path: Path, number: int, row: Table) -> Trait:
    where = f"{path}: trait {row.get('slug', f'number {number}')}"
    missing = [k for k in ("slug", "name", "definition", "topics") if not row.get(k)]
    if missing:
        raise UsageError(f"{where}: field {missing[0]!r} is missing")
    slug = str(row["slug"])
    if not slug.replace("_", "").isalnum() or slug != slug.lower():
        raise UsageError(f"{where}: a slug has lower-case letters, digits and underscores only")
    guide, esrb = _table(where, row, "guide"), _table(where, row, "esrb")
    _check_fields(where, row, FIELDS)
    _check_fields(f"{where}: guide", guide, ("applies", *GUIDE))
    topics = _texts(where, row, "topics")
    core = _texts(where, row, "core") if "core" in row else topics
    unknown = [t for t in core if t not in topics]
    if unknown:
        raise UsageError(f"{where}: core topic {unknown[0]!r} is not among its topics")
    return Trait(
        slug=slug,
        name=str(row["name"]),
        severe=_yes_or_no(where, row.get("severe", False)),
        definition=str(row["definition"]),
        hint=str(row.get("hint", "")),
        topics=topics,
        core=core,
        guide_applies=_applies(where, guide.get("applies", "none")),
        guide=tuple(_weight(where, guide.get(c, 0.0)) for c in GUIDE),
        esrb_applies=_applies(where, row.get("esrb_applies", "none")),
        esrb={_descriptor(where, k): _weight(where, v) for k, v in esrb.items()},
        safecrs=str(row.get("safecrs", row["name"])),
    )


def descriptor(name: str) -> str:
    """The one spelling of a descriptor (blood_and_gore): in another, games that have it would count as without it."""
    return "_".join(re.findall(r"[a-z0-9]+", name.lower()))


def _descriptor(where: str, written: str) -> str:
    """The spelling of a descriptor. Raises UsageError for a probable slip: games that have it would be cleared."""
    name = descriptor(written)
    bare = DEGREE.sub("", name)
    close = get_close_matches(bare, ESRB, 1, 0.85)
    if close and bare not in ESRB:
        raise UsageError(f"{where}: esrb: descriptor {written!r}: did you mean {name.removesuffix(bare)}{close[0]}?")
    return name


def _table(where: str, row: Table, field: str) -> Table:
    value = row.get(field, {})
    if not isinstance(value, dict):
        raise UsageError(f'{where}: {field} = {value!r}: expected a table such as {{ applies = "weak" }}')
    return value


def _yes_or_no(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: severe = {value!r}: expected true or false, without quotes")
    return value


def _texts(where: str, row: Table, field: str) -> tuple[str, ...]:
    value = row[field]
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise UsageError(f"{where}: {field} = {value!r}: expected a list of texts")
    return tuple(value)


def _check_fields(where: str, row: Table, fields: tuple[str, ...]) -> None:
    """Raises UsageError for an unknown field: it is probably misspelt, and would silently change verdicts."""
    unknown = [name for name in row if name not in fields]
    if unknown:
        raise UsageError(f"{where}: unknown field {unknown[0]!r}: expected some of {', '.join(fields)}")


def _applies(where: str, value: object) -> str:
    if value not in APPLIES:
        raise UsageError(f"{where}: applies = {value!r}: expected one of {', '.join(APPLIES)}")
    return str(value)


def _weight(where: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UsageError(f"{where}: weight {value!r}: expected a number from 0 to 1")
    return float(value)

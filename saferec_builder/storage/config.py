"""Reads saferec.toml and checks it, once per command."""

import re
import tomllib
from datetime import date
from os.path import normpath
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import polars as pl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from saferec_builder.core.errors import UsageError
from saferec_builder.core.oracle import Rule
from saferec_builder.core.plain_files import read_plain
from saferec_builder.core.release_files import is_release

FILE = "saferec.toml"
TEMPLATE = Path(__file__).with_name("saferec.toml")  # the file of a new workspace: every setting with its default
DEMO = Path(__file__).with_name("demo.toml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _check_pattern(text: str) -> str:
    """Checks a regular expression; polars has no look-around and no back references."""
    try:
        pl.Series([""]).str.contains(text)
    except pl.exceptions.ComputeError as fault:
        reason = next((line for line in str(fault).splitlines() if line.startswith("error: ")), "error: cannot be read")
        raise ValueError(f"not a regular expression, {reason}") from None
    return text


def _check_language(text: str) -> str:
    """Checks that a language is spelt as the language model spells it: "EN" would drop everything."""
    if not re.fullmatch(r"[a-z]{2,3}", text):
        raise ValueError(f'{text!r} is no ISO 639 code in small letters, such as "en"')
    return text


def _check_range(pair: tuple[float, float]) -> tuple[float, float]:
    """Checks a range of confidences: in wrong order, or in percent, it would hold no confidence at all."""
    if not 0 <= pair[0] <= pair[1] <= 1:
        raise ValueError("expected two confidences from 0 to 1, the smaller one first")
    return pair


Band = Annotated[tuple[float, float], AfterValidator(_check_range)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
Language = Annotated[str, AfterValidator(_check_language)]


class Dataset(_Section):
    name: str = "my-saferec"
    licence: str | None = Field(None, pattern=r"\S")  # None: none is declared, as only the owner can give one
    repo: str | None = None  # NS/NAME on the Hub
    k: int = Field(10, ge=1, le=100)  # items in a recommendation list


class TaxonomyFile(_Section):
    path: str | None = None


class Thresholds(_Section):
    violated_at: float = Field(0.66, gt=0, le=1)
    clear_below: float = Field(0.33, gt=0, le=1)
    violated_from: float = Field(0.95, gt=0.5, lt=1)
    clear_upto: float = Field(0.02, ge=0, lt=0.5)
    class_from: float = Field(0.97, gt=0.5, le=1)
    sure: float = Field(0.9, gt=0.5, lt=1)
    prior_yes: float = Field(1.0, gt=0)
    prior_no: float = Field(1.0, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.clear_below > self.violated_at:
            raise ValueError("clear_below must not be above violated_at: an item would be both")
        return self


OURS = ("model", "messages", "response_format", "tools", "tool_choice", "stream", "n")  # fields of each request


def _check_body(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Checks additional fields of a request's body: those that each request sets itself are refused."""
    if clashes := sorted(body.keys() & set(OURS)):
        raise ValueError(f"{clashes[0]} is set by each request, leave it out")
    return body


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[\x20-\x7e]*", value):
            raise ValueError(f"{name[:60]!r}: expected a header's name and one line of plain characters")
        if name.lower() == "authorization":
            raise ValueError("the key belongs into the environment variable that key_env names")
    return headers


class Model(_Section):
    """A model under a name that the user chose, with its prices in USD per million tokens."""

    model: str | None = None  # as the server calls it; default: the name
    base_url: str | None = None
    key_env: str = "OPENAI_API_KEY"
    input: float | None = Field(None, ge=0)
    cached_input: float | None = Field(None, ge=0)
    output: float | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=50, le=100_000)  # of one answer; default: Proposer.max_tokens
    max_tokens: int | None = Field(None, ge=50, le=100_000)  # the former name of max_completion_tokens
    temperature: float = Field(0.0, ge=0, le=2)
    reasoning_effort: str | None = None
    extra_body: Annotated[dict[str, JsonValue], AfterValidator(_check_body)] = {}
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = {}  # "$NAME": from the environment


class Proposer(_Section):
    model: str | None = None
    base_url: str | None = None
    allow_remote: bool = False
    concurrency: int = Field(16, ge=1, le=1024)
    timeout: float = Field(120.0, gt=0)  # seconds of one request
    retries: int = Field(3, ge=0, le=20)
    max_tokens: int = Field(2_000, ge=50, le=100_000)  # of one answer
    prompt: str | None = None  # a user's file instead of the embedded prompt
    budget_usd: float | None = Field(None, ge=0)
    jury: list[str] = []
    uncertain: Band = (0.3, 0.7)  # confidences of claims that a cascade escalates
    skip_silent: bool = False  # a cascade does not ask further where the rules found nothing
    batch_factor: float = Field(0.5, gt=0, le=1)  # price of a request in a batch
    batch_poll: float = Field(30.0, gt=0)  # seconds between two checks of a batch
    models: dict[str, Model] = {}


class Splits(_Section):
    validation: float = Field(0.1, gt=0, lt=0.5)
    test: float = Field(0.1, gt=0, lt=0.5)
    validation_from: date | None = None  # both dates together replace the shares
    test_from: date | None = None
    by_item: bool = False  # rows without time and person: those that name the same work first share a split

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.validation_from is None) != (self.test_from is None):
            raise ValueError("validation_from and test_from go together: give both or none")
        if self.validation_from and self.test_from and self.validation_from >= self.test_from:
            raise ValueError("validation_from must lie before test_from")
        return self


class Release(_Section):
    min_seekers: int = Field(5, ge=1)  # labels of a trait with fewer distinct people are withheld
    consent: list[str] = []  # reviewers who agreed to a release of their reviews under a pseudonym
    contact: str | None = None  # whom to ask for removal: an address or a page
    titles: Literal["dated", "any"] = "dated"  # items in texts: only "Title (Year)", or all that the finder finds
    requests: Literal["conversation", "turn"] = "conversation"  # one a conversation, or one per turn with new items
    truth: Literal["needed", "any"] = "needed"  # any: also test requests without an item, for safety figures only
    disclosed: Literal["last", "both"] = "last"  # where --inject discloses: the last message, or the first, too


class Mine(_Section):
    languages: list[Language] = []  # ISO 639 codes to keep, such as ["en"]; none: all, with the language marked


Domain = Literal["film", "series", "game", "book", ""]
SUGGESTIONS: dict[str, Domain] = {
    "MovieSuggestions": "film",
    "ifyoulikeblank": "",
    "televisionsuggestions": "series",
    "gamingsuggestions": "game",
    "suggestmeagame": "game",
    "ShouldIbuythisgame": "game",
    "booksuggestions": "book",
    "suggestmeabook": "book",
}


class Reddit(_Section):
    subreddits: dict[str, Domain] = SUGGESTIONS  # name in any case -> film | series | game | book, "" for mixed
    flair: Pattern | None = None  # None: the pattern in sources/threads.py
    other_flair: Pattern | None = None
    request: Pattern | None = None
    upvotes: int = Field(10, ge=0)
    buckets: int = Field(16, ge=1, le=65_536)


class Store(_Section):
    url: str | None = None  # default: workspace.db in the workspace


class Review(_Section):
    accounts: dict[str, str] = {}  # reviewer -> e-mail or user name on the team's review server
    readers: int = Field(2, ge=1, le=10)  # independent readers of each task; a majority makes a label
    audit: float = Field(0.1, ge=0, le=1)  # share of what was not proposed that is drawn and read blind
    recheck: float = Field(0.0, ge=0, le=1)  # share of undisputed labels that the adjudicator checks
    gold: str | None = None  # JSONL of tasks with known answers, which every reviewer reads
    decoys: float = Field(0.0, ge=0, le=0.5)  # share of the proposed tasks with a wrong suggestion planted
    controls: float = Field(0.1, ge=0, le=0.5)  # share of a reviewer's tasks in which others found something
    held_back: float = Field(0.1, ge=0, le=1)  # share of proposed conversations that one reader reads unsuggested
    severe_a_day: int = Field(30, ge=0)  # tasks with a severe trait per person and day; 0: no cap
    severe_in_a_row: int = Field(2, ge=0)  # severe tasks in a row; then another kind comes, if any waits
    auto: float = Field(0.0, ge=0, le=1)  # with a certificate, proposals at least this sure need no reader; 0: never


class Config(_Section):
    dataset: Dataset = Dataset()
    taxonomy: TaxonomyFile = TaxonomyFile()
    oracle: Thresholds = Thresholds()
    mine: Mine = Mine()
    reddit: Reddit = Reddit()
    propose: Proposer = Proposer()
    splits: Splits = Splits()
    release: Release = Release()
    store: Store = Store()
    review: Review = Review()
    demo: bool = False  # only a demo allows invented items and simulated reviews

    @property
    def rule(self) -> Rule:
        return Rule(**self.oracle.model_dump())


def read(folder: Path) -> Config:
    """Reads the workspace's saferec.toml; an error names the section, what was found and what is expected."""
    path = folder / FILE
    try:
        return Config.model_validate(tomllib.loads(read_plain(path).decode("utf-8-sig")))
    except FileNotFoundError:
        remedy = f"run `saferec-build init {folder}`"
        if is_release(folder):
            remedy = (
                f"it is a release: check it with `saferec-build verify {folder}`, train on it with `saferec-train run"
                f" --release {folder}`; a workspace is another folder, which `saferec-build init` makes"
            )
        if nearby := _nearby(folder):
            remedy = f"{nearby} is one: say `-C {nearby}`"
        raise UsageError(f"{folder} is no workspace ({FILE} is missing): {remedy}") from None
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        # a value under an unknown name, in a request or in a database's address may hold a password: it is not shown
        if first["type"] == "extra_forbidden":
            allowed = ", ".join(_allowed_names(first["loc"][:-1]))
            cut = first["loc"][:2] == ("propose", "models") and isinstance(first["input"], dict)
            hint = '; a name with a dot wants quotes: [propose.models."gpt-4.1"]' if cut else ""
            raise UsageError(f"{path}: {where}: nothing here has this name: expected one of {allowed}{hint}") from None
        secret = first["loc"][0] == "store" or {"headers", "extra_body"} & {*first["loc"]}
        finding = "" if secret else f"; found {str(first['input'])[:100]!r}"
        raise UsageError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}{finding}") from None
    except (ValueError, RecursionError) as fault:  # no TOML, no UTF-8, huge numbers or too deep nesting
        raise UsageError(f"{path}: not a TOML file: {fault}") from None


def _nearby(folder: Path) -> Path | None:
    """The workspace that was probably meant: the nearest one that contains this folder, else the first in it."""
    parents = (Path(normpath(folder.joinpath(*[".."] * n))) for n in range(1, len(folder.resolve().parents) + 1))
    inside = sorted(path.parent for path in folder.glob(f"*/{FILE}")) if folder.is_dir() else []
    return next((candidate for candidate in (*parents, *inside) if (candidate / FILE).is_file()), None)


def _allowed_names(section: tuple[int | str, ...]) -> list[str]:
    """The names that a section allows; for a table with names of the user, those under each of them."""
    kind: Any = Config
    for part in section:
        is_section = isinstance(kind, type) and issubclass(kind, BaseModel)
        kind = kind.model_fields[str(part)].annotation if is_section else get_args(kind)[1]
    return list(kind.model_fields)

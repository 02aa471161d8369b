"""Converts tasks to sheets for all review tools, and responses on servers to answers.

push   open units (routing.units) -> sheets, one per task
pull   a person's response to a sheet -> one answer per trait and `*`, and the rejected parts
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import polars as pl

from annotation.tools.quotes import merged, only
from annotation.tools.tasks_and_answers import VERDICTS, Pulled, Task, Turn, Turns, mark, rows_by_task
from saferec_builder.core.errors import ReviewError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import evidence_check as evidence
from saferec_builder.storage.schema import Span
from saferec_builder.storage.tables import HANDED_BACK, HANDED_BACK_WITH, digest

READ = "I have read it all"
RATHER_NOT = "I would rather not see this"
FORGED = "not by its author"
CHANGED = "changed there"
SKIPPED = "skipped"
CHOICES = tuple(zip(("Yes", "No", "Unsure"), VERDICTS, strict=True))  # on a card
NOT_ASSIGNED = "not assigned"  # stored, but not counted: role `other`
NOTHING: dict[str, Any] = {"trait": "*", "form": None, "spans": []}  # for a text as a whole

Ours = Callable[[str], Turns]  # key of a task -> turns of its text in the workspace; none for an unknown task


@dataclass(frozen=True)
class Sheet:
    """One task for one person. `units`: the traits with a question each; blind tasks have none."""

    key: str
    task: Task
    why: str
    head: str
    ask: str
    turns: Turns
    units: list[dict[str, Any]]
    rejected: tuple[str, ...] = ()  # lines about what was wrong with the last answer
    rest: dict[str, Any] | None = None  # the unit of all other traits; an adjudicator has none
    hard: bool = False  # the text has something severe besides the asked traits

    @property
    def asked(self) -> list[str]:
        return [u["trait"] for u in self.units]

    @property
    def suggested(self) -> dict[str, tuple[str, str | None, list[Span]]]:
        """trait -> (verdict, form, spans) to show: this person's previous answer, else the proposal."""
        suggestions = {}
        for u in self.units:
            part = "own_" if u["own_verdict"] else ""
            if u[f"{part}verdict"] in ("present", "unsure"):
                suggestions[u["trait"]] = (u[f"{part}verdict"], u[f"{part}form"], list(u[f"{part}spans"] or []))
        return suggestions


@dataclass
class Response:
    """One person's response to one sheet, in our units: code points, slugs, seconds."""

    key: str
    who: str
    place: str  # where a person finds it in the tool
    outcome: str = ""  # READ, RATHER_NOT, `skipped` or empty
    asked: list[str] = field(default_factory=list)
    # index in `asked` -> trait and verdict, if each has a card; None on a page with ticks, where unticked is absent
    verdicts: dict[int, str] | None = None
    unanswered: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    spans: dict[str, list[Span]] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)
    form: str | None = None  # of traits that `forms` lacks
    lost: dict[str, str] = field(default_factory=dict)  # trait -> words that are in no turn
    shown: frozenset[str] = frozenset()  # `mark` of the spans that the page showed beforehand
    forged: str = ""  # why it is not the answer of `who`
    page: str = ""  # `page_digest` of what the task shows on the server now
    project: str = ""  # its id on the server
    changed: str = ""  # what differs on the server from what was sent
    note: str | None = None
    seconds: float | None = None
    time: datetime | None = None
    guideline: str | None = None
    taxonomy: str | None = None
    link: str = ""  # opens it on the server


# ---- a server stores any input of its users: values of an unexpected shape count as missing


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def replace_surrogates(value: Any) -> Any:
    """Replaces lone surrogates, which no table can store."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def marks_of(value: Any) -> frozenset[str]:
    """`mark` of the spans that a server says it showed beforehand (trait -> spans)."""
    by_trait = value if isinstance(value, dict) else {}
    return frozenset(mark(t, s) for t, spans in by_trait.items() for s in list_of(spans) if isinstance(s, dict))


def page_digest(content: Any) -> str:
    """Digest of what a task shows on a review server, given as JSON."""
    return digest(json.dumps(content, sort_keys=True))


def words_at(turn: int, text: str, start: int, end: int) -> list[Span]:
    """The words of this turn from `start` to `end`, without the spaces around them: one span, or none."""
    quote = text[start:end]
    start += len(quote) - len(quote.lstrip())
    quote = quote.strip()
    return [{"turn": turn, "start": start, "end": start + len(quote), "quote": quote}] if quote else []


def take_mark(
    response: Response, trait: str, spans: list[Span], turns: Turns, other: str | None, *, moves: bool = True
) -> None:
    """Adds the spans of a mark. `other`: the words that the server showed at that place, if they differ from ours: the
    mark then moves to their place in our text (quotes.only; if `moves`), or counts as lost.

    Spans in turns that cannot hold evidence are left out, unless there are no others: these are refused later.
    """
    if other is not None and moves and (moved := only(other, turns)):
        spans = [moved]
    elif other is not None:
        response.lost[trait] = other
    speakers = [span for span in spans if turns[span["turn"]]["role"] in evidence.SPEAKER.values()]
    response.spans.setdefault(trait, []).extend(speakers or spans)


# ---- out


def sheets(
    units: pl.DataFrame,
    texts: pl.DataFrame,
    taxonomy: Taxonomy,
    sources: dict[str, list[str]],
    key: Callable[[str, list[str]], str],
) -> list[Sheet]:
    """One sheet per open task, in the order of `units`. `sources`: item -> known facts, with their sources. `key` makes
    a key from a `Task.id` and what the task asks (tasks_and_answers.keyed_id)."""
    current = texts.filter("current").join(units, on=["kind", "subject"], how="semi")
    heads = {(r[0], r[1]): (r[2], r[3]) for r in current.select("kind", "subject", "head", "turns").iter_rows()}
    result = []
    for task, rows in rows_by_task(units):
        head, raw = heads[task.kind, task.subject]
        cards, rest = [row for row in rows if row["trait"] != "*"], [row for row in rows if row["trait"] == "*"]
        known = sources.get(task.subject, []) if rows[0]["why"] != "audit" else []
        facts = known if rows[0].get("facts", True) else []
        rejected = rows[0].get("rejected") or []
        turns = [Turn(role=t["role"], text=t["text"]) for t in raw] or [Turn(role="plot", text="(no plot)")]
        hard = bool(rows[0].get("hard"))
        ask = "\n".join([*rejected, question(task, cards, taxonomy, facts, hard)])
        parts = [taxonomy.digest, *(unit["trait"] for unit in cards)]
        if hard and not any(taxonomy[unit["trait"]].severe for unit in cards):
            parts.append(warned([], taxonomy, hard))  # an open task without it is replaced
        if known and not facts:
            parts.append("without known facts")  # an open task that shows them is replaced
        values = (key(task.id, parts + rejected), task, rows[0]["why"], head or "", ask, turns, cards)
        result.append(Sheet(*values, rejected=(*rejected,), rest=next(iter(rest), None), hard=hard))
    return result


def check(sheet: Sheet, taxonomy: Taxonomy) -> None:
    """Raises ReviewError for a suggestion that no page can show, which is a bug of ours: servers accept any."""
    for trait, (_, _, spans) in sheet.suggested.items():
        if trait not in taxonomy.slugs:
            raise ReviewError(f"{sheet.key}: {trait}: not in the taxonomy: propose again")
        for span in spans:
            if sheet.turns[span["turn"]]["text"][span["start"] : span["end"]] != span["quote"]:
                raise ReviewError(f"{sheet.key}: the quote {span['quote'][:60]!r} is not in its turn: propose again")


def record(sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> tuple[str, list[str], list[str], str, str]:
    """The row of the table `keyed` for this task: what it asks."""
    marks = [mark(trait, span) for trait, (_, _, spans) in sheet.suggested.items() for span in spans]
    return sheet.key, sheet.asked, marks, guideline, taxonomy.digest


def opinions(unit: dict[str, Any]) -> list[str]:
    """The reviewers' verdicts on a trait, for the adjudicator: one line, or none."""
    return [f"Reviewers said: {'; '.join(unit['said'])}"] if unit["said"] else []


def about(unit: dict[str, Any], sheet: Sheet, taxonomy: Taxonomy) -> list[str]:
    """The lines of a card below the trait's name: definition, quotes, earlier answers of this person or reviewers."""
    spans = sheet.suggested.get(unit["trait"], ("", None, list[Span]()))[2]
    votes = opinions(unit)
    quotes = [] if votes else [f"\u201c{quote}\u201d" for quote in merged(spans)]
    if not spans and sheet.task.kind == "sensitivity":
        quotes = ["No words are marked yet: mark them before you say yes."]
    answers = [f"You answered: {name}." for name, verdict in CHOICES if verdict == unit["own_verdict"]]
    return [taxonomy[unit["trait"]].definition, *quotes, *answers, *votes]


def warned(cards: list[dict[str, Any]], taxonomy: Taxonomy, hard: bool) -> str:
    """The warning of a task with these cards, or of one that is `hard` because of a trait that it does not show; empty
    if it needs none."""
    names = "; ".join(taxonomy[unit["trait"]].name for unit in cards if taxonomy[unit["trait"]].severe)
    return f"May be hard to read{f' ({names})' * bool(names)}. You may leave it." if names or hard else ""


def question(task: Task, cards: list[dict[str, Any]], taxonomy: Taxonomy, sources: Iterable[str], hard: bool) -> str:
    """The lines above a task: a warning, then the question, then known facts."""
    lines = [*filter(None, [warned(cards, taxonomy, hard)])]
    if task.role == "adjudicator":
        lines.append("Please decide what this text shows.")
    elif task.kind == "item_flag":
        lines.append("Would this item break one of these sensitivities?")
        lines += [f"Known: {line}" for line in sources]
    else:
        lines.append("Does this person let us see that something would hurt, frighten or sicken them?")
    return "\n".join(lines)


# ---- in


def numbered(card: int) -> str:
    """The name of a card, from 1 on, on a page that has no names of traits beside it; no slug looks like it."""
    return f"#{card}"


def ticked(response: Response) -> Response:
    """Converts the cards of a response to ticks, by our own record of what was asked.

    Words marked for a trait without a card mean that it is present, unless it is among `unsure`; words for a trait
    whose card says no are ignored. A card that names another trait than we asked counts as not answered.
    """
    if response.verdicts is None:
        return response
    traits = {numbered(n): trait for n, trait in enumerate(response.asked, 1)}
    marks = {traits.get(t, t): spans for t, spans in response.spans.items()}
    lost = {traits.get(t, t): words for t, words in response.lost.items()}
    forms = {traits.get(t, t): form for t, form in response.forms.items()}
    answers = {t: response.verdicts.get(n, "").rpartition(" ") for n, t in enumerate(response.asked)}
    cards = {
        t: verdict if slug in ("", t) and verdict in VERDICTS else None for t, (slug, _, verdict) in answers.items()
    }
    refused = {t for t, verdict in cards.items() if verdict == "absent"}
    unsure = [t for t in response.unsure if t not in cards] + [t for t, v in cards.items() if v == "unsure"]
    present = [t for t in (*response.present, *marks, *lost) if t not in cards and t not in unsure]
    return replace(
        response,
        present=[*dict.fromkeys(present), *(t for t, v in cards.items() if v == "present")],
        unsure=unsure,
        unanswered=[t for t, v in cards.items() if v is None],
        spans={t: spans for t, spans in marks.items() if t not in refused},
        lost={t: words for t, words in lost.items() if t not in refused},
        forms=forms,
    )


def take(
    pulled: Pulled,
    response: Response,
    task: Task,
    turns: Turns,
    before: Mapping[str, set[str]],
    stamp: dict[str, Any],
    *,
    taxonomy: Taxonomy,
) -> None:
    """Adds the valid answers of `response` to `pulled`; an invalid one becomes a drop, and then no `*` is added.

    `turns` are those of the task's text in the workspace. `before` maps the traits that this person answered on the
    text earlier, besides those in `pulled`, to the taxonomies of these answers: a trait of these that is unticked now
    becomes `absent`, except those that left the taxonomy, which nobody is asked about.
    A person who hands the text back takes back their answers about it under the taxonomy of this task.
    """
    other = response.who != task.reviewer
    author = (None, "") if other else (task, response.link)
    if response.forged:
        pulled.drop(response.place, FORGED, response.forged, *author)
        return
    if response.outcome != READ and (other or response.outcome != RATHER_NOT):
        reason = SKIPPED if response.outcome == SKIPPED else "not finished"
        pulled.drop(response.place, reason, f"task {response.key}: no verdicts were taken", *author)
        return
    if other:
        detail = f"by {response.who}, the task was given to somebody else: kept, not counted"
        pulled.drop(response.place, NOT_ASSIGNED, detail)
    identity = asdict(task) | {"reviewer": response.who, "role": "other" if other else task.role}
    page_facts = {"guideline": response.guideline, "taxonomy": response.taxonomy}
    fixed = stamp | {k: v for k, v in page_facts.items() if v} | identity
    ruling = task.role == "adjudicator"  # has no `*`, whose row has the time of a reading
    fixed |= {"note": response.note, "seconds": response.seconds if ruling else None, "time": response.time}
    answers = {t: pulled.answers.get((task.kind, task.subject, t, response.who, fixed["role"])) for t in taxonomy.slugs}
    earlier = dict(before) | {t: {a["taxonomy"], *before.get(t, ())} for t, a in answers.items() if a}
    if response.outcome == RATHER_NOT:
        answered = {t for t, taxonomies in earlier.items() if fixed["taxonomy"] in taxonomies}
        # an adjudicator takes back only the traits that they were asked
        _take_back(pulled, response, fixed, answered & {*response.asked} if ruling else answered)
        return
    if response.changed:
        when = f" (answered {response.time.isoformat(timespec='seconds')})" if response.time else ""
        pulled.drop(response.place, CHANGED, f"{response.changed}{when}: it is asked anew", *author)
        return
    response = ticked(response)
    asked = {t for t in response.asked if t in taxonomy.slugs}
    faults = _faults(response, task, turns, taxonomy)
    # what has left the taxonomy nobody can correct, and holds nothing back
    left = set() if response.taxonomy in (None, taxonomy.digest) else faults.keys() - {*taxonomy.slugs}
    for trait, (reason, detail) in faults.items():
        pulled.drop(response.place, reason, f"{trait}: {detail}", *(() if trait in left else author))
    former = {*before} & {*taxonomy.slugs} | {
        t for t, a in answers.items() if a and fixed["taxonomy"] in (a["taxonomy"], taxonomy.digest)
    }
    traits = {*response.present, *response.unsure, *asked, *(() if ruling else former)} - faults.keys()
    for trait in sorted(traits):
        pulled.add(response.place, fixed | _verdict(response, trait))
    if not faults.keys() - left and not ruling:
        pulled.add(response.place, fixed | NOTHING | {"verdict": "absent", "seconds": response.seconds})


def _verdict(response: Response, trait: str) -> dict[str, Any]:
    """The columns of an answer about one trait: `present` has a form and its words, `unsure` only words."""
    verdict = "present" if trait in response.present else "unsure" if trait in response.unsure else "absent"
    form = response.forms.get(trait, response.form) if verdict == "present" else None
    spans = response.spans.get(trait, []) if verdict != "absent" else []
    return {"trait": trait, "verdict": verdict, "form": form, "spans": spans}


def _take_back(pulled: Pulled, response: Response, fixed: dict[str, Any], answered: set[str]) -> None:
    """Adds answers that take back these traits, and a `*` of which only the note counts."""
    row = fixed | NOTHING | {"verdict": None, "note": HANDED_BACK}
    for trait in sorted(answered):
        pulled.add(response.place, row | {"trait": trait})
    note = f"{HANDED_BACK_WITH}{response.note}" if response.note else HANDED_BACK
    pulled.add(response.place, row | {"note": note})


def _faults(response: Response, task: Task, turns: Turns, taxonomy: Taxonomy) -> dict[str, tuple[str, str]]:
    """trait -> (countable reason, found and expected)."""
    claimed = {*response.present, *response.unsure}
    faults = {}
    for trait in sorted({*claimed, *response.spans, *response.lost, *response.unanswered}):
        if task.role == "adjudicator" and trait in claimed and trait not in response.asked:
            faults[trait] = ("not asked", "an adjudicator rules on the disputed traits only")
        elif trait not in taxonomy.slugs:
            edited = response.taxonomy in (None, taxonomy.digest)
            msg = "the labels of the interface were edited: push again to mend it" if edited else "it left the taxonomy"
            faults[trait] = ("unknown trait", msg)
        elif trait in response.unanswered:
            faults[trait] = ("not answered", "its card says neither yes nor no nor unsure")
        elif trait in response.present and trait in response.unsure:
            faults[trait] = ("two verdicts", "present and unsure: expected one of them")
        elif trait in response.lost:
            faults[trait] = (evidence.NOT_FOUND, f"{response.lost[trait][:80]!r} does not stand there in our text")
        elif trait in claimed and (problem := evidence.first_fault(response.spans.get(trait, []), turns, task.kind)):
            faults[trait] = (problem[0], f"{problem[1][:80]!r} is no evidence")
        elif trait in response.present and not response.spans.get(trait) and task.kind == "sensitivity":
            faults[trait] = ("no quote", "`present` needs the words that show it: mark them in the text")
        elif trait not in claimed and any(mark(trait, s) not in response.shown for s in response.spans.get(trait, [])):
            faults[trait] = ("evidence without a verdict", "words are marked, but neither present nor unsure is ticked")
    return faults


# ---- offsets: servers count UTF-16 units, the workspace counts code points


def units16(text: str, index: int) -> int:
    """The number of UTF-16 units in the first `index` code points."""
    return len(text[:index].encode("utf-16-le")) // 2


def points(text: str, units: int) -> int:
    """The index in code points of an offset in UTF-16 units; inside a surrogate pair: where the pair begins."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))

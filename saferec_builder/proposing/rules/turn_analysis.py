"""Analyses one turn for the rules: where contents occur, which phrases are about them, and whose feeling it is."""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter

from saferec_builder.proposing.rules import cues, grammar
from saferec_builder.proposing.rules.grammar import Stance

NEAR = 120  # most code points between a cue and a phrase about it
LONG = 400  # code points of a sentence that are read on either side of a place
STORY = 500  # most code points of a turn that is only a request

# most words between a phrase and the content, by the phrase's level
REACH = {"strong": 12, "request": 8, "hate": 8, "mild": 7, "slight": 0, "fine": 5, "like": 5, "theirs": 5, "after": 14}
GLAD = ("fine", "like", "theirs")
_WISHED = ("won't", "wont", "will not")


@dataclass(frozen=True)
class Hit:
    """Evidence [start, end) of one trait in one turn."""

    trait: str
    start: int
    end: int
    verdict: str  # present | unsure
    form: str  # explicit | implicit
    sure: float


class Turn:
    """One turn that cues.Book.mask has blanked, with caches of what is needed more than once."""

    def __init__(self, low: str, book: cues.Book) -> None:
        self.low = low
        self.book = book
        self._likes: dict[str, list[int]] = {}
        self._besides: dict[tuple[str, bool], cues.Places] = {}
        self.ends = [m.end() for m in grammar.SENTENCE_END.finditer(low)]

    @cached_property
    def signs(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """(trait, list) -> spans of its phrases."""
        spans_by_label: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for label, start, end in self.book.signs.find(self.low):
            spans_by_label.setdefault(label, []).append((start, end))
        return spans_by_label

    @property
    def traits(self) -> list[str]:
        return sorted({slug for slug, _ in self.signs})

    @property
    def is_story(self) -> bool:
        """Whether the turn is so long that it tells mostly of works and events."""
        return len(self.low) > STORY

    @cached_property
    def stances(self) -> list[Stance]:
        """Every phrase of aversion, liking or ease, sorted by its start."""
        all_stances = (Stance(a, b, level, side == "after") for (level, side), a, b in self.book.stances.find(self.low))
        once = grammar.ONCE.search
        valid = (s for s in all_stances if s.level not in GLAD or not once(self.low, max(0, s.start - 20), s.start))
        return sorted((self._with_denial(s) for s in valid), key=lambda s: (s.start, s.end, list(REACH).index(s.level)))

    def _with_denial(self, stance: Stance) -> Stance:
        """The stance; if it is denied, as in "not afraid of", it becomes ease, or a request if it is a wish."""
        if stance.level in (*GLAD, "slight"):
            return stance
        if stance.level == "request" and not grammar.SHUNS.match(self.low, stance.start):
            return stance
        if grammar.REFUSES.match(self.low[stance.start : stance.end]):
            return stance
        if grammar.OWN_CLAUSE.match(self.low[stance.start : stance.end]) and not grammar.DOUBTS.search(
            self.low[max(0, stance.start - 30) : stance.start]
        ):
            return stance  # "if they don't make it I'm inconsolable"
        denied = grammar.DENIED.search(self.low[max(0, stance.start - 30) : stance.start])
        level = "request" if denied and denied[0].startswith(_WISHED) else "fine"  # "one that won't upset me"
        return Stance(stance.start, stance.end, level, stance.after) if denied else stance

    def _around(self, place: int) -> list[Stance]:
        start = attrgetter("start")
        first = bisect_left(self.stances, place - NEAR, key=start)
        return self.stances[first : bisect_right(self.stances, place + NEAR, key=start)]

    @cached_property
    def _all_signs(self) -> cues.Places:
        return cues.Places(chain.from_iterable(self.signs.values()))

    def before(self, start: int) -> Stance | None:
        """The nearest phrase that governs what begins at `start`."""
        near = [s for s in self._around(start) if not s.after and s.start < start and self._governs(s, start)]
        return max(near, key=lambda s: (s.end, -s.start), default=None)

    def _governs(self, stance: Stance, start: int) -> bool:
        if stance.end > start + 12:  # a phrase may overlap the first word or two of the content
            return False
        between = self.low[stance.end : start]
        if stance.level in GLAD and ":" in between.lstrip(" :"):  # "all I need to say: a needle makes me faint"
            return False
        if between.startswith(","):  # "no, that one has ghosts"
            return False
        if len(between.split()) > REACH[stance.level] or grammar.TURNING.search(between):
            return False
        if stance.level == "request" and grammar.strays(self.low[stance.start : stance.end], between):
            return False
        pause = grammar.LIST_PAUSE.search(between)  # after a comma it governs only the next content of a list
        if pause is None:
            return True
        if grammar.STARTS_ANEW.match(pause[1]):  # "fine with swords, it's needles that ..."
            return False
        if stance.level == "fine" and re.search(r"\b(?:and|or)\b", between):
            return True
        return len(pause[1].split()) <= 3 and self._all_signs.begin(stance.end, stance.end + pause.start())

    def after(self, end: int) -> Stance | None:
        return next(iter(self.afters(end)), None)

    def afters(self, end: int) -> list[Stance]:
        """The phrases about what ends at `end`, in its sentence or by a pronoun just behind it, nearest first."""
        near = [s for s in self._around(end) if s.after and s.start >= end and self._is_about(s, end)]
        eased = [s for s in near if s.level in GLAD and not self.low[end : s.start].strip()]
        return sorted(eased or near, key=lambda s: (s.level != "strong", s.start, -s.end))

    def _is_about(self, stance: Stance, end: int) -> bool:
        between = self.low[end : stance.start]
        phrases = [s for s in self._around(end) if not s.after and end < s.start and s.end < stance.start]
        if not self.points_back(stance) and any(s.level in ("request", *GLAD) for s in phrases):
            return False  # another content is in between: the phrase is about that one
        if not grammar.TURNING.search(self.low, end, stance.start):
            return len(between.split()) <= REACH["after"]
        if not between.strip(" .?!,:\n"):
            return stance.level == "strong"  # "Gore? No thanks."
        if self._all_signs.begin(end + 1, stance.start):
            return False  # the phrase is about the content in between
        close = min(stance.end + 30, self.sentence(stance.start)[1])
        if not self.points_back(stance) and self._all_signs.begin(stance.end, close):
            return False  # "a slasher, but I can't do blood": it is about the content that follows
        pieces = re.split(r"[.!?;,\n]+|\bbut\b|\bbecause\b|\bsince\b", self.low[end : stance.end])
        return len(pieces) <= 3 and stance.level != "like" and bool(grammar.ANAPHOR.match(pieces[-1]))

    def points_back(self, stance: Stance) -> bool:
        return bool(grammar.POINTS_BACK.search(self.low, stance.start, stance.end))

    def sentence(self, place: int) -> tuple[int, int]:
        n = bisect_right(self.ends, place)
        first, last = self.ends[n - 1] if n else 0, self.ends[n] if n < len(self.ends) else len(self.low)
        return max(first, place - LONG), min(last, place + LONG)

    def is_question(self, start: int) -> bool:
        """Whether it is a question about the film ("is it too gory?"), which is no aversion."""
        first, last = self.sentence(start)
        question = self.low[first:last].rstrip().endswith("?") and grammar.ASKS.match(self.low[first:last])
        return bool(question and grammar.DEGREE.match(self.low, start))

    def contents_besides(self, slug: str, genre: bool = False) -> cues.Places:
        """Spans of the contents of all other traits, and of their genres with `genre`."""
        if (slug, genre) not in self._besides:
            parts = ("cues", "genre") if genre else ("cues",)
            groups = (spans for (trait, part), spans in self.signs.items() if trait != slug and part in parts)
            self._besides[slug, genre] = cues.Places(chain.from_iterable(groups))
        return self._besides[slug, genre]

    def names_another(self, slug: str, start: int, far: bool = False) -> bool:
        """Whether the sentence (far: or the text before it) names another trait's content, and is about that."""
        first, last = self.sentence(start)
        first = max(0, first - NEAR) if far else first
        return self.contents_besides(slug, genre=True).begin(first, last)

    def holds(self, start: int, end: int, stance: Stance | None = None, content_end: int = 0) -> bool:
        """Whether it is the present feeling of the seeker, or of somebody who watches along."""
        first, last = place = self.sentence(start)
        context, lead = self.book.context, self.low[first:start]
        if grammar.is_over(self.low, place, self.sentence(min(last + 1, len(self.low)))[1], start, end, context):
            return False
        if stance and grammar.is_hearsay(self.low, place, start, end, context["reported"]):
            request = grammar.ASKED_ME.search(self.low, first, start)
            return request is not None and self._companion_asked(start, end, first, request.start())
        if grammar.SUPPOSED.search(self.low, first, end):
            return False
        others = any(m["other"] for m in context["person"].finditer(lead))  # those who watch along count
        if not others and grammar.is_anothers(self.low, place, start, end, stance, content_end):
            return False
        return self._is_watcher(start, end, self._earliest_person(start, stance, content_end), stance)

    def _companion_asked(self, start: int, end: int, first: int, stop: int) -> bool:
        """Whether one who watches along asked: "my wife, who watches too, asked me to ...", or an unnamed one."""
        people = [m for m in self.book.context["person"].finditer(self.low, first, stop) if m["other"]]
        if people:
            return self._watches_along(start, end, people[-1])
        return not self._watches_alone and bool(self.book.context["along"].search(self.low))

    def _earliest_person(self, start: int, stance: Stance | None, content_end: int) -> int:
        """The place from which on a named person can be the one who feels it."""
        if stance and stance.after and not grammar.UNABLE.match(self.low, stance.start):
            return start  # "leave that out" is the seeker's, whoever was named
        if stance and stance.after and not grammar.SAME_SUBJECT.search(self.low, content_end, stance.start):
            return content_end  # its subject comes after the content ("a ward is more than she ...")
        first = max(self.sentence(start)[0], start - 70)
        if stance and stance.level == "request" and not self._watches_alone:
            return max((m.end() for m in grammar.CLAUSE_EDGE.finditer(self.low, first, start)), default=first)
        return first

    def enjoyed(self, slug: str, start: int, end: int) -> bool:
        """Whether a sign is denied, or its content is liked: a scare can be the point."""
        if grammar.DENIED.search(self.low[max(0, start - 30) : start]) and not grammar.REFUSES.match(
            self.low[start:end]
        ):
            return True
        if grammar.is_to_be_moved(self.low[self.sentence(start)[0] : start]):
            return True
        before, after = self.before(start), self.after(end)
        before = before if before and before.end <= start else None  # "I need to know that the dog lives" is no liking
        if (before and before.level in ("like", "fine")) or (after and after.level == "like"):
            return True
        if grammar.SAYS_NOT.match(self.low[start:end]):
            return True
        return any(not start <= place < end for place in self._liked_places(slug))

    def is_welcome(self, start: int, stance: Stance) -> bool:
        """Whether the sentence asks for the content and then gives the reason: "extra points for ghosts, they ..."."""
        is_free = self.low.startswith("free", stance.start)  # "a needle-free series"
        return stance.after and not is_free and grammar.is_wanted(self.low[self.sentence(start)[0] : start])

    def _liked_places(self, slug: str) -> list[int]:
        """Starts of the contents of a trait that are liked, among the first 20."""
        if slug not in self._likes:
            contents = [*self.signs.get((slug, "cues"), ()), *self.signs.get((slug, "genre"), ())][:20]
            near = [(a, s) for a, b in contents for s in (self.before(a), self.after(b)) if s]
            self._likes[slug] = [a for a, s in near if s.level in ("like", "fine")]
        return self._likes[slug]

    def _who_feels(self, start: int, end: int, since: int, stance: Stance | None) -> tuple[re.Match[str] | None, bool]:
        """Returns (the person who feels it, or None; whether somebody else is named before the content)."""
        ahead = list(self.book.context["person"].finditer(self.low, since, start))
        within = [m for m in self.book.context["person"].finditer(self.low, start, end) if m[0] != "our" or not ahead]
        ahead = [m for m in ahead if m[0] not in ("my", "our")] or ahead  # "a lad in my squad"
        if stance and stance.level == "request" and not grammar.SHUNS.match(self.low, stance.start):
            # "a drama on rich people who have no fights" is asked for by the seeker
            ahead = [m for m in ahead if m[0] == "you" or not (m["any"] or m["which"])]
            within = [m for m in within if not m["other"]]  # "where the guy isn't cruel"
        if stance and stance.after and ahead and grammar.SAME_SUBJECT.search(self.low, since, start):
            ahead = ahead[:1]  # "I lost my brother to suicide and can't watch it"
        others = any(m["other"] for m in ahead)
        if not (within and ahead):
            return next(iter([*within, *ahead[-1:]]), None), others
        beside = not self.low[ahead[-1].end() : start].strip()  # "my wife reads me the ending", "I hide behind her at"
        return ahead[-1] if beside and (ahead[-1]["self"] or ahead[-1]["other"]) else within[0], others

    def _is_watcher(self, start: int, end: int, since: int, stance: Stance | None) -> bool:
        """Whether it is the feeling of the seeker, or of somebody who watches along."""
        first, _ = self.sentence(start)
        person, others = self._who_feels(start, end, since, stance)
        if person is None:
            return True
        if person["self"]:  # "she is afraid of caves, so we skip them" holds unless the seeker watches alone
            return not (person[0] in ("we", "us", "our") and others and self._watches_alone)
        lead = self.low[first:start]
        if not person["other"] and grammar.SAFE_FOR_ONE.search(lead):
            return True  # "is it safe for someone who can't see blood?"
        if person["which"] and grammar.OTHERS_WHO.search(self.low, first, person.start()):
            return False
        if person["which"] and not others:
            return bool(grammar.SELF.search(lead)) and "about" not in lead
        if self.book.context["both"].search(self.low, first, end + 40):
            return True
        return self._watches_along(start, end, person)

    def _watches_along(self, start: int, end: int, person: re.Match[str]) -> bool:
        """Whether the rest of the turn says that `person` watches along; "too much for my sister" itself does not."""
        elsewhere = self.low[max(0, start - 3 * LONG) : start] + " / " + self.low[end : end + 3 * LONG]
        return not self._watches_alone and any(
            self._fits_companion(elsewhere[m.start() : m.end() + 20], person)
            for m in self.book.context["along"].finditer(elsewhere)
        )

    def _fits_companion(self, along: str, person: re.Match[str]) -> bool:
        """Whether "with my husband" can be the one who feels it: it names nobody, a group, or uses the same word."""
        companions = self._names(along)
        before = self.low[max(0, person.start() - LONG) : person.start()]
        feelers = [person[0]] if " " in person[0] else self._names(before)[-1:]
        word = feelers[0].split()[-1] if feelers else ""
        return not companions or not word or any(word in name or grammar.GROUP.search(name) for name in companions)

    def _names(self, text: str) -> list[str]:
        """The other people whom a text names, without pronouns: "my wife", "the kids"."""
        return [m[0] for m in self.book.context["person"].finditer(text) if m["other"] and " " in m[0]]

    @cached_property
    def _watches_alone(self) -> bool:
        return bool(self.book.context["away"].search(self.low))

    def is_declared(self, start: int, end: int, stance: Stance | None = None, content_end: int = 0) -> bool:
        """Whether the writer of a long turn says that it is a feeling or a wish of theirs."""
        return grammar.is_declared(self.low, self.sentence(start)[0], start, end, stance, content_end)

    def joking(self, hit: Hit) -> bool:
        return bool(self.book.context["joke"].search(self.low[max(0, hit.start - 20) : hit.end + 60]))

    def hit(self, slug: str, place: tuple[int, int], verdict: str, form: str, sure: float) -> Hit:
        """The hit with its evidence, [start, end), widened to whole clauses, at most NEAR on either side."""
        start, end = place
        edges = [m.end() for m in grammar.CLAUSE_EDGE.finditer(self.low, max(0, start - NEAR), start)]
        left = edges[-1] if edges else max(0, start - NEAR)
        edge = grammar.CLAUSE_EDGE.search(self.low, end, min(len(self.low), end + NEAR))
        right = edge.start() if edge else min(len(self.low), end + NEAR)
        left += len(self.low[left:start]) - len(self.low[left:start].lstrip(" \t\r\n\"'-"))
        right -= len(self.low[end:right]) - len(self.low[end:right].rstrip())
        return Hit(slug, left, right, verdict, form, sure)

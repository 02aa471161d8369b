"""Analyses one turn for the rules: where contents stand, what is said of them, and whose feeling it is.

reads  a turn that cues.Book.mask has blanked
gives  for a content at [start, end): the phrases that govern it, whether they hold for who watches here and now, and
       the evidence as whole clauses
"""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from saferec_builder.proposing.rules import cues, grammar
from saferec_builder.proposing.rules.grammar import Stance

NEAR = 120  # code points between a cue and what is said of it
LONG = 400  # code points: so much of a sentence without an end is read on either side

# how many words may stand between a phrase and the content, by the level of what it says
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
    """One blanked turn, and what is asked of it more than once."""

    def __init__(self, low: str, book: cues.Book) -> None:
        self.low = low
        self.book = book
        self._likes: dict[str, list[int]] = {}
        self._besides: dict[tuple[str, bool], cues.Places] = {}
        self.ends = [m.end() for m in grammar.SENTENCE_END.finditer(low)]

    @cached_property
    def signs(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """(trait, list) -> where its phrases stand."""
        found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for label, start, end in self.book.signs.find(self.low):
            found.setdefault(label, []).append((start, end))
        return found

    @property
    def traits(self) -> list[str]:
        return sorted({slug for slug, _ in self.signs})

    @cached_property
    def stances(self) -> list[Stance]:
        """Every phrase of aversion, liking or ease, by its start."""
        found = (Stance(a, b, level, side == "after") for (level, side), a, b in self.book.stances.find(self.low))
        here = (s for s in found if s.level not in GLAD or not self._was_once(s))
        return sorted((self._as_denied(s) for s in here), key=lambda s: (s.start, s.end, list(REACH).index(s.level)))

    def _was_once(self, stance: Stance) -> bool:
        return bool(grammar.ONCE.search(self.low, max(0, stance.start - 20), stance.start))

    def _as_denied(self, stance: Stance) -> Stance:
        """The same, or ease where it is denied: "not afraid of"."""
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
        starts = self._starts
        return self.stances[bisect_left(starts, place - NEAR) : bisect_right(starts, place + NEAR)]

    @cached_property
    def _starts(self) -> list[int]:
        return [s.start for s in self.stances]

    def _names_content(self, first: int, last: int) -> bool:
        """True where a sign of any trait begins in [first, last)."""
        return self._all_signs.begin(first, last)

    @cached_property
    def _all_signs(self) -> cues.Places:
        return cues.Places(chain.from_iterable(self.signs.values()))

    def before(self, start: int) -> Stance | None:
        """The nearest phrase that governs what begins at `start`."""
        near = [s for s in self._around(start) if not s.after and s.start < start and self._governs(s, start)]
        return max(near, key=lambda s: (s.end, -s.start), default=None)

    def _governs(self, stance: Stance, start: int) -> bool:
        if stance.end > start + 12:  # a phrase may swallow the first word or two of the content
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
        pause = grammar.LIST_PAUSE.search(between)  # past a comma only the next content in a list is still governed
        if pause is None:
            return True
        if grammar.STARTS_ANEW.match(pause[1]):  # "fine with swords, it's needles that ..."
            return False
        if stance.level == "fine" and re.search(r"\b(?:and|or)\b", between):
            return True
        return len(pause[1].split()) <= 3 and self._names_content(stance.end, stance.end + pause.start())

    def after(self, end: int) -> Stance | None:
        return next(iter(self.afters(end)), None)

    def afters(self, end: int) -> list[Stance]:
        """What is said of what ends at `end`, in its sentence or by a pronoun just behind it, the nearest first."""
        near = [s for s in self._around(end) if s.after and s.start >= end and self._speaks_of(s, end)]
        eased = [s for s in near if s.level in GLAD and not self.low[end : s.start].strip()]
        return sorted(eased or near, key=lambda s: (s.level != "strong", s.start, -s.end))

    def _speaks_of(self, stance: Stance, end: int) -> bool:
        between = self.low[end : stance.start]
        others = [s for s in self._around(end) if not s.after and end < s.start and s.end < stance.start]
        if not self.points_back(stance) and any(s.level in ("request", *GLAD) for s in others):
            return False  # another content stands between: the phrase is about that one
        if not grammar.TURNING.search(self.low, end, stance.start):
            return len(between.split()) <= REACH["after"]
        if not between.strip(" .?!,:\n"):
            return stance.level == "strong"  # "Gore? No thanks."
        if self._names_content(end + 1, stance.start):
            return False  # what is named in between has it
        close = min(stance.end + 30, self.sentence(stance.start)[1])
        if not self.points_back(stance) and self._names_content(stance.end, close):
            return False  # "a slasher, but I can't do blood": what follows has it
        pieces = re.split(r"[.!?;,\n]+|\bbut\b|\bbecause\b|\bsince\b", self.low[end : stance.end])
        return len(pieces) <= 3 and stance.level != "like" and bool(grammar.ANAPHOR.match(pieces[-1]))

    def points_back(self, stance: Stance) -> bool:
        return bool(grammar.POINTS_BACK.search(self.low, stance.start, stance.end))

    def sentence(self, place: int) -> tuple[int, int]:
        n = bisect_right(self.ends, place)
        first, last = self.ends[n - 1] if n else 0, self.ends[n] if n < len(self.ends) else len(self.low)
        return max(first, place - LONG), min(last, place + LONG)

    def asked(self, start: int) -> bool:
        """A question about the film ("is it too gory?") is no aversion."""
        first, last = self.sentence(start)
        question = self.low[first:last].rstrip().endswith("?") and grammar.ASKS.match(self.low[first:last])
        return bool(question and grammar.DEGREE.match(self.low, start))

    def contents_besides(self, slug: str, genre: bool = False) -> cues.Places:
        """Where contents of every other trait stand, and kinds of film with `genre`."""
        if (slug, genre) not in self._besides:
            parts = ("cues", "genre") if genre else ("cues",)
            found = (spans for (trait, part), spans in self.signs.items() if trait != slug and part in parts)
            self._besides[slug, genre] = cues.Places(chain.from_iterable(found))
        return self._besides[slug, genre]

    def names_another(self, slug: str, start: int, far: bool = False) -> bool:
        """True where the sentence (`far`: or what stands before it) names another trait's content: it is about that."""
        first, last = self.sentence(start)
        first = max(0, first - NEAR) if far else first
        return self.contents_besides(slug, genre=True).begin(first, last)

    def holds(self, start: int, end: int, stance: Stance | None = None, content_end: int = 0) -> bool:
        """True where it is the seeker, or one who watches along, here and now."""
        first, last = place = self.sentence(start)
        context, lead = self.book.context, self.low[first:start]
        if grammar.is_over(self.low, place, self.sentence(min(last + 1, len(self.low)))[1], start, end, context):
            return False
        if stance and grammar.is_hearsay(self.low, place, start, end, context["reported"]):
            asked = grammar.ASKED_ME.search(self.low, first, start)
            return asked is not None and self._asked_along(start, end, first, asked.start())
        if grammar.is_supposed(self.low[first:end]):
            return False
        others = any(m["other"] for m in context["person"].finditer(lead))  # those who watch along count
        if not others and grammar.is_anothers(self.low, place, start, end, stance, content_end):
            return False
        return self._watches(start, end, self._reach_back(start, stance, content_end), stance)

    def _asked_along(self, start: int, end: int, first: int, asked: int) -> bool:
        """True for "my wife, who watches too, asked me to leave blood out"; "the lad I live with" has no name."""
        by = [m for m in self.book.context["person"].finditer(self.low, first, asked) if m["other"]]
        if by:
            return self._is_along(start, end, by[-1])
        return not self._alone and bool(self.book.context["along"].search(self.low))

    def _reach_back(self, start: int, stance: Stance | None, content_end: int) -> int:
        """From where on somebody named can be the one who feels it."""
        if stance and stance.after and not grammar.UNABLE.match(self.low, stance.start):
            return start  # "leave that out" is the seeker's, whoever was named
        if stance and stance.after and not grammar.SAME_SUBJECT.search(self.low, content_end, stance.start):
            return content_end  # its subject stands behind the content ("a ward is more than she ...")
        first = max(self.sentence(start)[0], start - 70)
        if stance and stance.level == "request" and not self._alone:
            return max((m.end() for m in grammar.CLAUSE_EDGE.finditer(self.low, first, start)), default=first)
        return first

    def enjoyed(self, slug: str, start: int, end: int) -> bool:
        """True where a sign is denied, or what it is a sign of is liked: a scare can be the point."""
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
        return any(not start <= place < end for place in self._liked(slug))

    def wanted(self, start: int, stance: Stance) -> bool:
        """True where the sentence asks for the content and says why behind it: "extra points for ghosts, they ..."."""
        is_free = self.low.startswith("free", stance.start)  # "a needle-free series"
        return stance.after and not is_free and grammar.is_wanted(self.low[self.sentence(start)[0] : start])

    def _liked(self, slug: str) -> list[int]:
        """Where contents of a trait stand that are liked, of the first few."""
        if slug not in self._likes:
            contents = [*self.signs.get((slug, "cues"), ()), *self.signs.get((slug, "genre"), ())][:20]
            near = [(a, s) for a, b in contents for s in (self.before(a), self.after(b)) if s]
            self._likes[slug] = [a for a, s in near if s.level in ("like", "fine")]
        return self._likes[slug]

    def _feels(self, start: int, end: int, since: int, stance: Stance | None) -> tuple[re.Match[str] | None, bool]:
        """(who does, the nearest person named; whether somebody else is named before the content)."""
        ahead = list(self.book.context["person"].finditer(self.low, since, start))
        inside = [m for m in self.book.context["person"].finditer(self.low, start, end) if m[0] != "our" or not ahead]
        ahead = [m for m in ahead if m[0] not in ("my", "our")] or ahead  # "a lad in my squad"
        if stance and stance.level == "request" and not grammar.SHUNS.match(self.low, stance.start):
            # "a drama on rich people who have no fights" is asked for by the seeker
            ahead = [m for m in ahead if m[0] == "you" or not (m["any"] or m["which"])]
            inside = [m for m in inside if not m["other"]]  # "where the guy isn't cruel"
        if stance and stance.after and ahead and grammar.SAME_SUBJECT.search(self.low, since, start):
            ahead = ahead[:1]  # "I lost my brother to suicide and can't watch it"
        others = any(m["other"] for m in ahead)
        if not (inside and ahead):
            return next(iter([*inside, *ahead[-1:]]), None), others
        beside = not self.low[ahead[-1].end() : start].strip()  # "my wife reads me the ending", "I hide behind her at"
        return ahead[-1] if beside and (ahead[-1]["self"] or ahead[-1]["other"]) else inside[0], others

    def _watches(self, start: int, end: int, since: int, stance: Stance | None) -> bool:
        """True where it is the seeker's feeling, or that of somebody who watches along."""
        first, _ = self.sentence(start)
        who, others = self._feels(start, end, since, stance)
        if who is None:
            return True
        if who["self"]:  # "she is afraid of caves, so we skip them" holds while she is there
            return not (who[0] in ("we", "us", "our") and others and self._alone)
        lead = self.low[first:start]
        if not who["other"] and grammar.SAFE_FOR_ONE.search(lead):
            return True  # "is it safe for someone who can't see blood?"
        if who["which"] and grammar.OTHERS_WHO.search(self.low, first, who.start()):
            return False
        if who["which"] and not others:
            return bool(grammar.SELF.search(lead)) and "about" not in lead
        if self.book.context["both"].search(self.low, first, end + 40):
            return True
        return self._is_along(start, end, who)

    def _is_along(self, start: int, end: int, who: re.Match[str]) -> bool:
        """True where the rest of the turn seats `who` on the sofa; "too much for my sister" itself does not."""
        elsewhere = self.low[max(0, start - 3 * LONG) : start] + " / " + self.low[end : end + 3 * LONG]
        return not self._alone and any(
            self._seats(elsewhere[m.start() : m.end() + 20], who)
            for m in self.book.context["along"].finditer(elsewhere)
        )

    def _seats(self, along: str, who: re.Match[str]) -> bool:
        """True where "with my husband" can be the one who feels it: nobody is named, a group, or the same word."""
        named = self._names(along)
        feels = [who[0]] if " " in who[0] else self._names(self.low[max(0, who.start() - LONG) : who.start()])[-1:]
        word = feels[0].split()[-1] if feels else ""
        return not named or not word or any(word in name or grammar.GROUP.search(name) for name in named)

    def _names(self, text: str) -> list[str]:
        """ "my wife", "the kids": everybody else whom a text names, pronouns left out."""
        return [m[0] for m in self.book.context["person"].finditer(text) if m["other"] and " " in m[0]]

    @cached_property
    def _alone(self) -> bool:
        return bool(self.book.context["away"].search(self.low))

    def joking(self, hit: Hit) -> bool:
        return bool(self.book.context["joke"].search(self.low[max(0, hit.start - 20) : hit.end + 60]))

    def hit(self, slug: str, start: int, end: int, verdict: str, form: str, sure: float) -> Hit:
        """The hit with its evidence widened to whole clauses, at most NEAR on either side."""
        edges = [m.end() for m in grammar.CLAUSE_EDGE.finditer(self.low, max(0, start - NEAR), start)]
        left = edges[-1] if edges else max(0, start - NEAR)
        edge = grammar.CLAUSE_EDGE.search(self.low, end, min(len(self.low), end + NEAR))
        right = edge.start() if edge else min(len(self.low), end + NEAR)
        left += len(self.low[left:start]) - len(self.low[left:start].lstrip(" \t\r\n\"'-"))
        right -= len(self.low[end:right]) - len(self.low[end:right].rstrip())
        return Hit(slug, left, right, verdict, form, sure)

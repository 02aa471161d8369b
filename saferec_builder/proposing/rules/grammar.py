"""The English grammar of the rules: where a clause ends or turns, who is meant, what is denied.

All patterns are for lower-case texts from cues.Book.mask, which have BLANKs in place of titles.
"""

import re
from dataclasses import dataclass
from pathlib import Path

SENTENCE_END = re.compile(r"[.!?;\n]+(?=[\s)\"]|$)|\n")
CLAUSE_EDGE = re.compile(r"[.!?;:\n,()\0]|\bbut\b|\bhowever\b|\balthough\b")
TURNING = re.compile(
    r"\b(?:but|however|though|although|except|unless|while|whereas|because|since|then|instead|fine|ok|okay|enough|"
    r"love[ds]?|enjoy\w*|prefer\w*|mind|want|looking|(?<!you )(?:recommend|suggest)\w*|"
    r"(?:i|we|you|he|she|they|to|[a-z]+n't|not|never|do|did|would|really|also|both|always|who|i'd|we'd) like|"
    r"like[ds])\b|[.!?;\n]"
)
ANAPHOR = re.compile(r"\W*(?:\w+\W+){0,4}?(?:it|that|they|this|those|these|them|both|one|i|i'm|i've|im)\b")
REFUSES = re.compile(r"(?:no|not|n't|never|can'?t|cannot|won'?t|don'?t|without|unable|dont|refuse)\b|.*\bcan'?t\b")
UNABLE = re.compile(r"can't|cant|cannot|could|unable|not able|(?:get|got|have|had)s?\b")
SAME_SUBJECT = re.compile(r"\b(?:and|but|or|so|then)(?: \w+ly| just| still| also| now)?\s+$")  # "he left, and can't"
SHUNS = re.compile(r"(?:avoid|skip|keep|stay|steer|filter|leave)")
DENIED = re.compile(
    r"(?:\bwill not|\bwon't|\bwont|\bnot|n't|\bnever|\bno longer|\bhardly|\brarely|\bnothing|\bisnt|"
    r"\bno (?:need|reason) to|\bnever have to)\s+(?:\w+\s+){0,2}$"
)
OWN_CLAUSE = re.compile(r"(?:i'm|i am|i|we're|we are|we)\b")
DOUBTS = re.compile(r"\b(?:think|thought|say|said|mean|meant|believe|know|remember|that)\s+$")
SAYS_NOT = re.compile(r"(?:i'm|im|i|we're|we|i am|we are) (?:not|never|hardly)\b|i don't (?:get|feel)\b")
ABSENT = re.compile(r"\b(?:no|not|never|without|nobody|n't)\s+(?:\w+\s+){0,2}$")
DEGREE = re.compile(r"(?:too|so|way|far|just|very|really|bit|little|scary|gory|not|no|nothing)\b")
ASKS = re.compile(r"\W*(?:is|are|was|were|does|do|did|how|has|have|would)\b")
SELF = re.compile(r"\b(?:i|im|ive|me|my|mine|myself|we|us|our)\b")
OTHERS_WHO = re.compile(
    r"(?<!one of )(?<!one of those )(?<!one of the )\b(?:people|those|folks|others|viewers|everyone|anyone)\s*$"
)
SAFE_FOR_ONE = re.compile(
    r"\b(?:as|for|give|suits?) (?:someone|somebody|one|people like (?:me|us)|"
    r"a (?:\w+ )?(?:person|reader|viewer|player|gamer|watcher|fan|lover|listener))(?: like (?:me|us))?"
    r"(?: who(?:'s)?| that)?\s*$"
)
ONCE = re.compile(r"\bused to (?:be )?(?:\w+ly )?$")
GROUP = re.compile(r"\b(?:family|kids|children|group|friends|class|club|students|residents|guests|parents|boys|girls)$")
POINTS_BACK = re.compile(r"\b(?:it|that|those|them|these|this|such)\b")
STARTS_ANEW = re.compile(r"\s*(?:it'?s|that'?s|what|i|i'm|i've|we|they)\b")
LIST_PAUSE = re.compile(r",(?!.*,)(.*)", re.S)

_BONUS = "(?:points?|marks?)|(?:a |an )?(?:big |huge |major |giant |nice )?(?:plus|bonus)"
_WANTS = re.compile(  # what follows in the sentence is wanted
    rf"\b(?:(?:extra|bonus|brownie|added) {_BONUS}\b|the more\b.*\bthe (?:better|merrier)|even better (?:if|with)|"
    r"(?:n't|not|never|without) (?:shy(?:ing)? away|hold(?:ing)? back|shrink(?:ing)?|flinch(?:ing)?|skimp(?:ing)?|"
    r"afraid (?:of|to) (?:show|go|us|hav|be|get)\w*)(?: (?:from|on|of|with))?|"
    r"(?:would|'d) (?:love|like|prefer) (?:it )?(?:if|to see|some|lots|plenty|something|a|an|one)|"
    r"(?:want|wants|need|crave) (?:to (?:be|get|feel)|something|a|an|one|some|lots|more)|"
    r"(?:looking|searching|hunting) for|in the mood for|(?:the )?(?:scarier|gorier|darker|bloodier|creepier))\b"
)
_RESTRICTS = re.compile(
    r"\b(?:no|not|n't|nothing|none|never|without|avoid\w*|free|less|but|though|although|however|yet|while|just|only|except|unless|don'?t|isn'?t|doesn'?t)\b|n't\b"
)
_WANTS_EFFECT = re.compile(  # "one that leaves me sleepless", "something to scare me": the effect is wanted
    r"\b(?:one|ones|something|anything|films?|movies?|books?|games?|shows?|stor(?:y|ies)|anime|manga|stuff|novels?) "
    r"(?:that|which|to|who)(?:'ll)?(?: (?:will|can|would|could|might|may|should|really|actually|truly|also|just|still|"
    r"is|are|and|genuinely|properly|totally|completely))*\s*$"
)


def is_wanted(lead: str) -> bool:
    """Whether the words before a content or an effect in its sentence ask for it, without a restriction."""
    ends = [match.end() for match in _WANTS.finditer(lead)]
    return bool(ends) and not _RESTRICTS.search(lead, ends[-1])


def is_to_be_moved(lead: str) -> bool:
    match = _WANTS_EFFECT.search(lead)
    return bool(match and not _RESTRICTS.search(lead))


# ---- whose feeling a clause is, and in what mood: each looks at the words around one phrase


@dataclass(frozen=True)
class Stance:
    """A phrase that expresses an attitude to a content; level as in cues.toml, after: it follows the content."""

    start: int
    end: int
    level: str
    after: bool


Place = tuple[int, int]  # a sentence, as [start, end)

_PIECE = re.compile(r"\b(?:and|or|that|which|but|because|since|so|when|whenever|while|though|although|where|until)\b")
_HARD_EDGE = re.compile(r"[.!?;:\n,()\"]")
# words that can stand before a feeling whose subject is left out, or is "it"
_NEUTRAL = frozenset(Path(__file__).with_name("neutral.txt").read_text(encoding="utf-8").split())
_HOUSE = re.compile(r"\b(?:this|our) (?:household|house|family|home|sofa|couch)\b")
_AMOUNT = ("too ", "so ", "unnecessary", "gratuitous", "needless", "excessive")  # about a film, without a subject
_ONESELF = re.compile(  # "my twins" are others, "my stomach" and "my worst fear" are not
    r"\b(?:i|im|ive|i'\w+|we|we'\w+|me|us|mine|myself|ourselves)\b|^\W*as an? |"
    r"\b(?:my|our)(?: (?:\w+st|big|one|main|own|real|only))?\s*$|"
    r"\b(?:my|our) (?:\w+ )?(?:body|brain|head|heart|stomach|guts?|skin|eyes?|ears|hands?|palms|legs|knees|chest|"
    r"throat|lungs|nerves|anxiety|ptsd|phobia|trauma|panic|fears?|asthma|epilepsy|migraines?|sobriety|recovery|condition|life|"
    r"childhood|past|mind|imagination|tolerance|limits?|rule|triggers?|problem|issue|thing)\b"
)
_REPORTS = re.compile(
    r"\b(?:mention|say|claim|write|complain|report|insist|warn|find|think|reckon|swear|tell|argue|call)(?:s|ed)?"
    r"(?: (?:me|us|it))?(?: that)?\b(?! to\b)|\b(?:said|wrote|found|thought|swore|told (?:me|us)(?! to\b))(?: that)?\b"
)
_ASKS_FOR = re.compile(
    r"\b(?:(?:ask|beg|vote|pray|call)(?:s|ed)? for|insist(?:s|ed)? on|wants?|wanted|demand(?:s|ed)?)\s*$"
)
_BY_ACCOUNT = re.compile(  # but a doctor's advice is a need of one's own
    r"\b(?:according to|in the words of|to quote)\b|"
    r"(?<!doctor )(?<!therapist )(?<!sponsor )(?<!counsellor )(?<!neurologist )"
    r"\b(?:ask(?:s|ed)?|expect(?:s|ed)?|beg(?:s|ged)?|forbade) (?:me|us) (?:to\s*$|not to\b|"  # others: one's own
    r"to (?:please )?(?:not|never|avoid|skip|leave|keep|stay|warn|steer|spare|drop|cut|stop|promise|check)\b)"
)
ASKED_ME = re.compile(r"\b(?:ask(?:s|ed)?|beg(?:s|ged)?|wants?) (?:me|us) (?:not )?to\b")
_SAID_AFTER = re.compile(
    r"[^.!?;\n]{0,80}?,['\"]? (?:(?:it|he|she|they|\w+) )?(?:says|said|say|claims|claimed|writes|wrote|warns|warned|"
    r"shouts|shouted|goes)\b"
)
_PAST = re.compile(
    r"\b(?:couldn't|could not|wouldn't|would not|was|were|hated|had|avoided|used to|made|got|\w+ed (?:me|us)|fainted|"
    r"cried)\b"
)
_NOW = re.compile(r"\b(?:can't|cannot|cant|don't|dont|won't|am|i'm|is|are|still|makes?|gives?|please|no|not|nothing)\b")
_SINCE = re.compile(
    r"[.!?] then\b|\bit(?:'s| has| is)(?: been)? (?:\w+ )?(?:years|decades)\b|"
    r"\b(?:(?:i|we) can(?: again)?(?: now)?(?=[.,;!]|$| and\b)|these days|nowadays|"
    r"(?:that's|that is) (?:done|gone|finished|history)|that was (?:back )?in|the second time|"
    r"(?:years|decades?|man|woman|therapy) later|no longer|then i had|i've (?:\w+ed|since|learnt|got used)|"
    r"(?:i'm|i am) (?:ready|well|fine|over|"
    r"an? (?!wreck|mess|survivor|wimp|coward|chicken|baby|puddle|bit|little|parent|m[ou]m|dad|mother|father)\w+)\b|"
    r"is all well|the second (?:one )?(?:\w+ed|made|is|was)\b|"
    r"now (?:i|we|there|it|they)(?:'ve|'m|'s|'re)?(?! (?:can't|cannot|couldn't|don't|won't|avoid|still|hate)))"
)
_SKIPPED = re.compile(r"\w+(?:ly|ed|ing)")
_OWN_RULE = re.compile(r"so (?:that|this|it)\b|(?:which |that )?rules\b")
_SKIP_IT = re.compile(r"(?:so )?(?:skip|avoid|drop|leave|spare us|keep) (?:it|them|that|those|these|such|all|any)\b")
_ASKED_OF_YOU = re.compile(r"\b(?:can|could|would|will|if) you\b|\b\w+ to\s*$")  # "could you find me"
SUPPOSED = re.compile(  # a clause is hypothetical: "if I were pregnant"
    r"\bif (?!you\b)\w+(?: \w+)? \w+ed (?:me|us)\b|"
    r"\bif (?:i|we)(?:'d(?! rather)| (?:were|was|could|did|had|ever|still)(?! (?:to|known)\b))|"
    r"\b(?:were|had) (?:i|we)\b(?! known)|"
    r"\b(?:i|we)(?:'d| would| wouldn't|'d not| couldn't) have (?:been|gone|left|run|sat|seen|\w+ed)\b"
)
_NO = re.compile(r"(?:(?:has|have|had|contains?) )?(?:no|not|nothing|zero|none|nobody)\b")
_HAS = re.compile(r"(?:has|have|had|contains?) ")
_SUBJECT_VERB = re.compile(
    r"\b(?:it|there|this|they|he|she|(?:the|his|her|this|that) \w+)(?:'s| is| was| were| are| has| had| have|'d)"
    r"(?: got| practically| hardly| really| almost)?\s*$"
)
_SUBJECT = re.compile(r"\b(?:it|this|they|he|she|(?:the|his|her|this|that) \w+)\s*$")
_WISHES = re.compile(
    r"\b(?:please|pls|tell me|let me know|want|need|hop\w+|prefer\w*|long as|if|unless|make sure|sure|rules?|condition|"
    r"ask|request\w*|kindly|appreciate|grateful|thankful|obliged|"
    r"only|must|wish|ideally|provided|so|check\w*|promise\w*|can|could|would|anything|something|recommend\w*|find)\b"
)
_EVENT = re.compile(r"\s+(?:were|was|had|did|left|relations?|(?:in the \w+ )?this (?:year|week|month|summer|winter))\b")
_GLADLY = re.compile(  # "I can't watch it without dancing"
    r"[^.!?;,]{0,60}?\bwithout (?!(?:cry|sob|weep|feel|panick|shak|get|hav|flinch|winc|look|clos|cover|gag|turn|want|"
    r"fear|relaps|spiral)\w*)\w+ing\b"
)
_OPTIONAL = re.compile(
    r"\s*(?:required|needed|necessary|mandatory|essential|a must|limited to|only|just|opposed|against)\b"
)
_TOWARDS = re.compile(r"\s*(?:straight |right |ahead )?to\b")
_STATES = re.compile(r"^(?!.*\b(?:where|when|which|that|who|if|there)\b).*\b(?:is|are|was|were)\b", re.S)


def is_anothers(low: str, place: Place, start: int, end: int, stance: Stance | None, content_end: int) -> bool:
    """Whether it is another's feeling ("the board couldn't handle the blood") or a report ("it had no ghosts")."""
    lead, phrase, tail = low[place[0] : start], low[start:end], low[max(end, content_end) : place[1]]
    if stance and stance.level == "request":
        if _is_report(lead, phrase, tail):
            return True
        return bool(SHUNS.match(phrase)) and not _ASKED_OF_YOU.search(lead) and _names_other(lead)
    if UNABLE.match(phrase) and _GLADLY.match(low, end, place[1]):
        return True
    if SELF.search(phrase) or (stance and phrase.startswith(_AMOUNT)):
        return False
    if stance and stance.after:
        same_subject = SAME_SUBJECT.search(low, content_end, start) and not SELF.search(low, content_end, start)
        asks_to_skip = _SKIP_IT.match(phrase)  # "he walks out at blood, so skip those"
        lead = low[place[0] : content_end] if same_subject and not asks_to_skip else ""
    return _names_other(lead)


def _names_other(lead: str) -> bool:
    """Whether the words before a feeling in its sentence name somebody else who has it, and not the seeker."""
    if SAFE_FOR_ONE.search(lead) or _HOUSE.search(lead):
        return False
    clause = _HARD_EDGE.split(lead)[-1]
    for piece in reversed(_PIECE.split(clause)):
        if _ONESELF.search(piece):
            return False
        if "\0" in piece or any(w not in _NEUTRAL and not _SKIPPED.fullmatch(w) for w in re.findall(r"[\w']+", piece)):
            return True
    return False


def _is_report(lead: str, phrase: str, tail: str) -> bool:
    """Whether "no" reports what a film has or what happened, and requests nothing."""
    if not _NO.match(phrase):
        return False
    if _EVENT.match(tail) or " than " in tail:
        return True
    return not _WISHES.search(lead + tail) and bool((_SUBJECT if _HAS.match(phrase) else _SUBJECT_VERB).search(lead))


def strays(phrase: str, between: str) -> bool:
    """Whether a request is not about what follows: "skip to the ghosts", "no screens is cruelty", "not required"."""
    optional = phrase.endswith("not") and _OPTIONAL.match(between)
    return bool(_TOWARDS.match(between) or optional or (re.match(r"no\b", phrase) and _STATES.search(between)))


def is_hearsay(low: str, place: Place, start: int, end: int, reported: re.Pattern[str]) -> bool:
    """Whether it is what others say: "people say that it is too bloody", "no blood, says my aunt"."""
    lead = low[place[0] : start]
    candidates = [(lead[: m.start()], m.end()) for m in _REPORTS.finditer(lead)]
    reports = [stop for head, stop in candidates if _names_other(head) and not _ASKED_OF_YOU.search(head)]
    account = _BY_ACCOUNT.search(lead)
    if (account and not _HARD_EDGE.search(lead, account.end())) or _SAID_AFTER.match(low, end, place[1]):
        return True
    if any(not SELF.search(lead, stop) for stop in reports) and not _OWN_RULE.match(low, start):
        return True
    if (asks := _ASKS_FOR.search(lead)) and _names_other(lead[: asks.start()]):
        return True
    listed = [m.end() for m in reported.finditer(low, place[0], start)]
    return bool(listed) and not SELF.search(low, listed[-1], end)


def is_over(low: str, place: Place, next_end: int, start: int, end: int, context: dict[str, re.Pattern[str]]) -> bool:
    """Whether a feeling is over, by its sentence and the next one (up to `next_end`)."""
    first, last = place
    if context["over"].search(low, start, next_end):
        return True
    if _PAST.search(low, first, end) and not _NOW.search(low, first, end) and _SINCE.search(low, end, end + 400):
        return True
    if context["still"].search(low, first, last):
        return False
    if context["past_always"].search(low, first, end):
        return True
    past = context["past_form"].search(low, max(first, start - 12), end)
    return bool(past and context["past_time"].search(low, first, last))


# ---- long texts, which tell mostly of works and events: whether a feeling or a wish in one is its writer's own

_REQUESTS = re.compile(  # words of a request, which make a condition of "no ghosts" and "without gore"
    r"\b(?:wants?|wanting|looking|search\w*|recommend\w*|recs?|suggest\w*|prefer\w*|please|pls|avoid\w*|hop(?:e|ing)|"
    r"ideally|requirements?|criteria|(?:would|'d) (?:love|like|rather)|any(?:thing)?|something|as long as|must|"
    r"deal_?breakers?|request\w*|find (?:me|us)|(?:is|are) there)\b"
)
_RULES_OUT = re.compile(  # behind a content: it is ruled out, made the writer stop, or does something to them
    r"\b(?:deal[ -]?breakers?|no[ -]?go|off[ -]limits|triggering|phobi\w+|fear|much for (?:me|us)|can'?t|cannot|won'?t|"
    r"never again|out of the question|skip|avoid|leave|ha(?:d|ve) to (?:put|stop|skip|leave|turn|quit|close|look)|"
    r"(?:make|give|freak|creep|gross|scare|upset|disturb|bother|trigger|terrif|frighten|hurt|haunt|sicken|unsettle|"
    r"distress|stress|nauseate)\w*\b.*\b(?:me|us|my|our))\b"
)
_OWN = re.compile(rf"{SELF.pattern}|\bas an?\b")  # "as a survivor"
_LABEL = re.compile(r"(?:tw|cw|trigger warning|content warning)")  # it warns others who read the text
_LACK = re.compile(  # what may only say that something is not there
    r"(?:that|which)\b|(?:(?:with|ha[sd]|have) )?(?:no|not|nothing|none|nobody|neither|without|less|least|fewer|zero)\b"
)
_BARE = re.compile(r"(?:no|without|nothing|avoid)\b")
_ASKED = re.compile(r"\b(?:please|just|preferably|ideally)\b")
_JOINS = frozenset("and or but also just so with please preferably ideally they it that which there is are".split())


def is_declared(low: str, first: int, start: int, end: int, stance: Stance | None, content_end: int) -> bool:
    """Whether the writer of a long text says that it is a feeling or a wish of theirs; first: start of its sentence."""
    lead, phrase = low[first:start], low[start:end]
    clause = CLAUSE_EDGE.split(lead)[-1]
    if stance is None:
        return bool(_OWN.search(clause + phrase))
    if stance.after:
        apart = SENTENCE_END.search(low, content_end, start) and not (POINTS_BACK.search(phrase) or SELF.search(phrase))
        return bool(_RULES_OUT.search(phrase)) and not apart
    if stance.level == "request":
        return _is_own_request(lead, clause, phrase)
    if stance.level == "mild" or _OWN.search(lead + phrase):  # "too much blood" is the writer's own measure
        return True
    return not _words(lead) and not _LABEL.match(low, start)  # "hated the blood"


def _is_own_request(lead: str, clause: str, phrase: str) -> bool:
    """Whether a request in a long text asks for a work; lead and clause: the words before it in its sentence, and those
    in its clause."""
    if _words(clause):  # "I had no idea" and "I know nothing about" are no wishes, "I don't want" is one
        return bool(_REQUESTS.search(clause) or (SELF.search(clause) and not _LACK.match(phrase)))
    if _REQUESTS.search(lead) or _ASKED.search(clause + phrase):  # "swearing is fine, just no ghosts"
        return True
    return not _words(lead) and bool(_BARE.match(phrase))  # "No ghosts."


def _words(text: str) -> list[str]:
    """The words of a text without those that only join or soften."""
    return [word for word in re.findall(r"[a-z']+", text) if word not in _JOINS]

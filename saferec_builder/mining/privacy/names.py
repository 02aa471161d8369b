"""Names that people give of themselves and of those in their life, by the words that stand before such a name.

A name alone is left: most capitalised words in talk about films are titles, casts and characters. After sure words
("my name is") nearly anything counts, after loose ones ("I'm", "my son") a capital or a known given name.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any


@cache
def words() -> dict[str, Any]:
    """What words.toml lists."""
    told: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return told


KIN = words()["kin"]
CAPITAL = "".join(c for c in map(chr, [*range(0x41, 0x590), *range(0x1E00, 0x2000)]) if c.isupper())
NAME = rf"[{CAPITAL}][^\W\d_]*(?:['’-][^\W\d_]+){{0,4}}"
_FULL = rf"{NAME}(?: {NAME}){{0,2}}"
TITLE = r"(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof)\b\.? "
OPEN = r"[\"“”'‘*_(]{0,3}"  # my name is **Anna**
LOW = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"

_CALLED = re.compile(
    rf"\b(?:[Mm]y|[Oo]ur)(?: [a-z]+(?:['’]s)?){{0,3}} name(?:['’]?s| is| was)[:,]? {OPEN}(?P<name>{_FULL}|{LOW})"
    rf"|\bMY NAME IS {OPEN}(?P<name2>{NAME})"
    rf"|\b[Tt]he name['’]s {OPEN}(?P<name3>{_FULL})"
    rf"|\b(?:[Ii] go by|(?:I['’]?m|I am|i['’]?m|i am) called"
    rf"|(?:everyone|everybody|people|friends) (?:calls?|knows?) me(?: as)?"
    rf"|[Cc]all me) {OPEN}(?P<name4>{_FULL})"
    rf"|(?:^|\n)\s{{0,4}}(?:[Nn]ame|NAME) ?: ?{OPEN}(?P<name5>{_FULL})"
    rf"|\b(?:[Mm]y|[Oo]ur)(?: [a-z-]+){{0,2}} (?:{KIN})(?: is|['’]s| are)? (?:called|named) "
    rf"{OPEN}(?P<name6>{_FULL}|{LOW})"
    rf"|(?<![\w'’-])(?P<name7>{NAME}) is my name\b"
)
_SAID = ("name", "NAME", "Name", "called", " me ", "go by")  # one of them is in every match
_KIN_OF = re.compile(
    rf"\b(?:[Mm]y|[Oo]ur|MY)(?: (?!name\b)[a-z-]+){{0,3}}? (?:{KIN})"
    rf"(?P<comma>, ?| \()? ?(?P<bold>[*_]{{1,2}})?(?P<name>{TITLE}{_FULL}|{_FULL})(?P<after>.?)"
)
_KIN_LOW = re.compile(rf"\b(?:[Mm]y|[Oo]ur)(?: (?!name\b)[a-z-]+){{0,3}}? (?:{KIN}),? (?P<name>[^\W\d_A-Z]+)\b")
_AUNT = re.compile(rf"\b(?:aunt|auntie|uncle|grandma|grandpa|cousin|nana|nan) (?P<name>{NAME})")
_OUR = re.compile(rf"\b(?:[Oo]ur|lost my|miss my) (?P<name>{NAME})")
_I_AM = re.compile(rf"\b(?:I['’]?m|I am|i['’]?m|i am|im|Im|[Tt]his is) (?P<name>{_FULL}|{LOW})(?P<after>[^\n]{{0,14}})")
_GREETED = re.compile(r"(?:^|[\n.!?] ?)(?:hi|hello|hey|hiya|greetings)\b[^.\n]{0,14}[,.! ]*$", re.I)
_HERE = re.compile(
    rf"(?:^|\n|[Hh]i,? |[Hh]ello,? |[Hh]ey,? |, )(?P<name>{_FULL}) here\b(?=\s*(?:$|[,.!\n-]| again| from| back))"
)
_SPOKEN_TO = re.compile(
    rf"(?:^|[\n.!?] ?)(?:[Hh]ey|[Hh]i|[Hh]ello|[Dd]ear|[Tt]hanks|[Tt]hank you) (?P<name>{NAME})(?=[,!])"
    rf"|\b[Ii]t['’]s (?P<name2>{_FULL}) again\b"
    rf"|\b(?:[Aa]sk|[Aa]sked|[Tt]ell|[Tt]old) (?P<name3>{NAME})(?= (?:and|at|if|that|to|about|what|for)\b)"
    rf"|(?:^|[\n.!?] ?)(?:(?:[Bb]est|[Kk]ind|[Ww]arm) (?:regards|wishes)|[Ss]incerely|[Rr]egards|[Cc]heers|[Bb]est)"
    rf"(?:,? )(?P<name4>{_FULL})(?= x*\s*$|\s*$| ?[—–-])"
)
_REACH = "call|text|ring|phone|e-?mail|mail|message|contact|dm|DM|pm|PM|reach|write to|ask|tell|told|asked"
_STARTS_REACH = "Call|Text|Ring|Phone|E-?mail|Mail|Message|Contact|Reach|Write to|Ask|Tell"  # not in "Go Ask Alice"
_SENT_TO = (
    r"(?:[Nn]ame on (?:[a-z]+ ){1,3}(?:is|was|reads)|[Uu]nder the name(?: of)?|[Rr]egistered (?:to|under|for)"
    r"|[Aa]ttn\.?|[Cc]/o|(?:[Ss]hip|[Ss]end|[Dd]eliver|[Aa]ddress|[Mm]ail)(?:ed|ped)?(?: (?:it|them|that|this))? to"
    r"(?: my [a-z ]{1,20})?)(?: is|:)?"
)
_LIFE = re.compile(  # what is said of people one knows, and seldom of characters
    rf"(?:^|[\n.!?] ?|\b[Hh](?:i|ey|ello),? )(?P<name9>{NAME}) and I\b"  # not "I like Drew and I also ..."
    rf"|(?<![\w'’-])(?P<name>{NAME})(?: and (?:me|myself)\b"
    r"|,? (?:says? (?:hi|hello|thanks)|(?:told|asked|called|sent|showed|lent) me|texted|recommended)\b"
    r"|['’]s (?:birthday|place|flat|number|email|e-mail|phone|insta|account)\b"
    r"|, ?(?:1[3-9]|[2-9]\d)(?=[,);]| years?\b| y/?o\b|[mf]\b))"
    rf"|(?<![\w'’-])(?:me|us|myself) and (?P<name2>{NAME})\b"
    rf"|(?:\b(?:{_REACH})|(?:^|[\n.!?] ?)(?:{_STARTS_REACH})) (?P<name3>{_FULL})"
    r"(?= (?:on|at|under|via|the|he|she|they|i|I|we|when|where|how|why)\b|[:,.!?]|\s*$)"
    rf"|\b(?:[Tt]hat|[Tt]his|[Ii]t)(?: was| is|['’]s) (?:meant )?for (?P<name4>{NAME})(?=[.,!?)]|\s*$| and\b)"
    rf"|\b{_SENT_TO} ?{OPEN}(?P<name5>{_FULL})"
    rf"|(?:^|\n)>? ?(?:[Ff]rom|[Tt]o|[Cc]c|[Ss]igned|[Ss]ent by): ?(?P<name6>{_FULL})"
    rf"|(?:^|\n)[> ]*(?:On [^\n]{{1,60}}, )?(?P<name7>{_FULL}) wrote:"
    rf"|(?:^|[\n.!?] ?)(?:[Oo]l[aá]|[Hh]ola|[Hh]allo|[Bb]onjour|[Ss]alut|[Cc]iao|[Hh]ej),? (?P<name8>{_FULL})"
    r" (?:aqu[ií]|hier|ici|qui|här|her)\b"
)
_OF_A_FILM = re.compile(r"\b(?:watch\w*|see|seen|saw|like|love|film|movie|starring|by|with) $", re.I)
_WHOLE = re.compile(rf"(?<![\w'’-])(?P<name>{NAME}(?: {NAME}){{1,3}})")
_MORE = re.compile(rf"(?:, ?(?:and )?| and | & | y | et | und | e | i | og | och | en | ve )(?P<name>{NAME})")
_SIGNED = re.compile(
    r"(?:^|\n|[.!?)] ?)(?:(?P<formal>sincerely|regards|yours(?: truly)?|signed|xx+|xoxo"
    r"|(?:best|kind|warm) (?:regards|wishes))"
    r"|(?:thanks|thank you|many thanks|thx|cheers|love|best|bye|ta|hugs|take care)"
    r"(?: (?:so much|again|all|everyone|in advance|a lot|guys|y'all))*)"
    rf"(?P<apart>[ ,.!]*\n\s*|,\s*| ?[,.!]* ?[-–—~]+ ?|(?<=[xo]) )[-–—~]* ?"
    rf"(?P<name>{_FULL.replace(f'[{CAPITAL}]', f'(?-i:[{CAPITAL}])')})\s*[.!]?\s*$",
    re.I,
)
_DASHED = re.compile(rf"(?:^|[\w.!?)\n])\s*[-–—~]+ ?(?P<name>{_FULL})\s*$")

_FLAT = str.maketrans({"ł": "l", "ø": "o", "ı": "i", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss"})
_TAIL = 100  # a signature stands at the end

NEVER = frozenset(words()["never"].split())


@cache
def known() -> tuple[frozenset[str], frozenset[str]]:
    """(given names, those of them that are no common words)."""
    words, more = (_words(f"given_names{name}.txt") for name in ("", "_more"))
    every = frozenset(bare(w.removesuffix("+")) for w in (*words, *more))
    return every, frozenset(w for w in words if not w.endswith("+"))


@cache
def doubtful() -> frozenset[str]:
    """Given names that are common words, too."""
    return frozenset(word.removesuffix("+") for word in _words("given_names.txt") if word.endswith("+"))


_SYLLABLES = frozenset(words()["syllables"].split())


def _words(name: str) -> list[str]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of names; later ones may overlap earlier ones, which are the surer."""
    for found in _CALLED.finditer(text) if any(word in text for word in _SAID) else ():
        group = found.lastgroup or ""
        if plausible(found[group]):
            yield found.span(group)
            yield from others(text, found.end(group))
    of_one = any(word in text for word in ("my ", "My ", "our ", "Our ", "MY ", "OUR "))
    for found in _KIN_OF.finditer(text) if of_one else ():
        if _of_kin(found):
            yield found.span("name")
            yield from others(text, found.end("name"))
    for pattern in (_KIN_LOW, _AUNT, _OUR) if of_one else (_AUNT,):
        for found in pattern.finditer(text):
            if given(found["name"], sure=pattern is not _KIN_LOW) or (pattern is _AUNT and plausible(found["name"])):
                yield found.span("name")
    for found in _I_AM.finditer(text):
        if _introduced(text, found):
            yield found.span("name")
    for found in _SPOKEN_TO.finditer(text):
        group = found.lastgroup or ""
        if plausible(found[group]) and (given(found[group]) or group == "name4"):
            yield found.span(group)
    for found in _LIFE.finditer(text):
        group = found.lastgroup or ""
        if plausible(found[group]) and (given(found[group]) or group in ("name5", "name7", "name8")):
            yield found.span(group)
    for pattern in (_HERE, _SIGNED, _DASHED) if " here" in text else (_SIGNED, _DASHED):
        for found in pattern.finditer(text, 0 if pattern is _HERE else max(0, len(text) - _TAIL)):
            if _closes(text, found, pattern):
                yield found.span("name")


def beside(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of full names in a text that tells how to reach or to pay somebody: a letter, no list of casts."""
    for found in _WHOLE.finditer(text):
        of_a_film = _OF_A_FILM.search(text, max(0, found.start() - 20), found.start())
        if not of_a_film and found["name"].split()[0].casefold() not in NEVER and given(found["name"]):
            yield found.span("name")


def is_given(name: str) -> bool:
    """One word, and a given name."""
    return " " not in name and given(name)


def first(name: str) -> str:
    """The first word of a name, without Mr or Dr, in lower case."""
    return re.split(r"[ .]", re.sub(f"^{TITLE}", "", name), maxsplit=1)[0].casefold()


def given(name: str, *, sure: bool = True) -> bool:
    """Is the first word a given name; where it is not `sure`, common words do not count."""
    every, only = known()
    whole = name.split(" ", 1)[0]
    if "-" in whole and hyphened(whole):
        return True
    first = bare(re.split(r"[ '’-]", name, maxsplit=1)[0].casefold())
    return first in every if sure and name[0].isupper() else first in only


def any_given(words: Iterable[str]) -> bool:
    """May one of the words be a given name, or begin one?"""
    every, only = known()
    capital = [word.casefold() for word in words if word[0].isupper()]
    near = not every.isdisjoint(capital) or not only.isdisjoint(words) or not _SYLLABLES.isdisjoint(capital)
    return near or not all(map(str.isascii, words))


def hyphened(word: str) -> bool:
    """Ji-woo and Hans-Peter, but no Spider-Man."""
    first, _, other = bare(word.casefold()).partition("-")
    if first in _SYLLABLES and other in _SYLLABLES:
        return True
    every, only = known()
    return first in only and other in (every if word[0].isupper() else only)


def bare(word: str) -> str:
    """zoe of zoë, lukasz of łukasz: the list has no accents."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFD", word).translate(_FLAT)
    return "".join(c for c in plain if not unicodedata.combining(c))


def plausible(name: str) -> bool:
    """No common word, nothing shouted; a lower-case name has three letters or more."""
    words = name.casefold().split()
    if words[0] in NEVER or (not name[0].isupper() and len(words[0]) < 3):
        return False
    return given(name) or not name.split()[0].isupper() or len(name) < 3


def _of_kin(found: re.Match[str]) -> bool:
    name, after = found["name"], found["after"]
    if re.match(TITLE, name):
        return True
    if not plausible(name):
        return False
    if found["bold"]:  # titles are set apart more often than people
        return given(name)
    if found["comma"]:  # "my husband, Rashid, ..." but not "for my son, Frozen"
        return after in ",.);:!?" and given(name) if " " not in name else given(name) and after in ",.)"
    return given(name) or " " not in name


def others(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Names that go on a list: "and Finn"."""
    while found := _MORE.match(text, at):
        if not given(found["name"]) and not text[found.end() :].startswith((" (", " are", " and", ",")):
            return
        if found["name"].casefold() in NEVER:
            return
        yield found.span("name")
        at = found.end()


def _introduced(text: str, found: re.Match[str]) -> bool:
    name, after = found["name"], found["after"]
    if not plausible(name) or name.endswith(("ish", "ese")):
        return False
    greeted = bool(_GREETED.search(text, max(0, found.start() - 30), found.start()))
    closes = bool(re.match(r"\s*(?:$|[,.!;:)]|and i\b|and I\b|by the way|btw|again|from\b|here\b|\(|[-–—])", after))
    if name[0].isupper():
        goes_on = re.match(
            r",? (?:from|new|and I|\d|a |an )\b| \((?:pronounced|she|he|they)| by the way| btw| again|,? here", after
        )
        known = given(name) and (closes or " " in name)
        return bool((greeted and closes) or (known and (greeted or goes_on or " " in name)))
    return given(name, sure=False) and closes and (greeted or not found[0].lower().startswith("this"))


def _closes(text: str, found: re.Match[str], pattern: re.Pattern[str]) -> bool:
    name = found["name"]
    if not plausible(name):
        return False
    if pattern is _HERE:
        return given(name) or found[0][0] in ",Hh"  # after a greeting any name will do
    if pattern is _SIGNED:
        return bool(found["formal"] or "\n" in found["apart"]) or given(name)
    listed = len(re.findall(r"(?:^|\n)\s*[-–—~*•]", text)) > 1
    return not listed and given(name)


def _lower_kin() -> str:
    """A relative and a given name, both as people type who use no capitals."""
    return rf" (?:{KIN}),? (?:{'|'.join(sorted(known()[1]))})(?-u:\b)"


# Cheap searches that any text with a name to find matches.
_UPPER = r"\p{Lu}"
MAYBE = (
    rf"(?-u:\b)(?:[Mm]y|[Oo]ur|MY)(?: [a-zé'’-]+){{0,6}}(?: ?\(|,)? ?[*_]{{0,2}}{_UPPER}[^\W\d_'’ ]",
    r"(?-u:\b)(?:[Mm]y|[Oo]ur|MY)(?: [a-zé'’-]+){0,6}(?: ?\(|,)? ?[*_]{0,2}\p{Lu}['’]",
    r" name(?:['’]?s| is| was)[:,]? | is my name|NAME IS | (?:called|named) "
    r"|[Cc]all me \W{0,3}\p{Lu}|(?:calls?|knows?) me |[Ii] go by |(?i:name ?: ?)\W{0,3}\pL",
    rf"(?-u:\b)(?:[Ii]['’]?m|[Ii] am|[Tt]his is) {_UPPER}|{_UPPER}[\w'’-]* here(?-u:\b)|(?:lost|miss) my \p{{Lu}}"
    r"|(?i:aunt|auntie|uncle|grandma|grandpa|cousin|nana|nan) \pL",
    r"(?:(?i:regards|wishes|sincerely|yours|truly|signed)|[Xx]{2}|[Xx]oxo|(?-u:\b)(?i:sincerely|regards|yours|truly|signed"
    r"|wishes|thanks|you|thx|cheers|love|best|bye|ta|hugs|care|much|again|all|everyone|advance|lot|guys)[ ,.!]*"
    r"[,\n])\s*[-–—~]* ?"
    rf"{_UPPER}[\w'’ -]*[.!]?\s*$|[-–—~] ?{_UPPER}[\w'’ -]*[.!]?\s*$",
    r"(?i:hey|hi|hello|dear|thanks|thank you|it['’]s|asked|ask|tell|told|regards|wishes|sincerely|cheers|best)"
    rf",? {_UPPER}",
    rf"{_UPPER}[\w'’-]*(?: and (?:I|me|myself)|,? (?:say|told|ask|text|call|sent|show|lent|recomm)|, ?\d\d)"
    r"|['’]s (?:birth|place|flat|numb|e-?mail|phone|insta|acc)"
    rf"|(?:me|us|myself) and {_UPPER}|(?: was| is|['’]s) (?:meant )?for {_UPPER}",
    rf"(?i:call|text|ring|phone|mail|message|contact|dm|pm|reach|write to|ask|tell|told|asked) {_UPPER}",
    rf"(?i:name on |under the name|registered |attn|c/o )|(?i:ship|sen[dt]|deliver|addr|mail)[a-z]* .{{0,30}}{_UPPER}"
    rf"|(?i:from|to|cc|signed|by): ?{_UPPER}|wrote:"
    rf"|(?i:ol[aá]|hola|hallo|bonjour|salut|ciao|hej),? {_UPPER}",
    _lower_kin(),
    rf"(?-u:\b)(?:[Ii](?:['’]?m| am)|[Tt]his is) (?:{'|'.join(sorted(known()[1]))})(?-u:\b)",
)

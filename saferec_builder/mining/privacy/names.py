"""Names that people give of themselves and of those in their life, by the words before such a name.

A name alone is ignored: most capitalised words in talk about films are titles, casts and characters. After certain
words ("my name is") nearly any word counts, after ambiguous ones ("I'm", "my son") a capital or a known given name.
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
    """The contents of words.toml."""
    lists: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return lists


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
_CALLED_WORDS = ("name", "NAME", "Name", "called", " me ", "go by")  # every match has one of them
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
_LIFE = re.compile(  # phrases about people whom the writer knows, and seldom about characters
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
_WHOLE_NAME = re.compile(rf"(?<![\w'’-])(?P<name>{NAME}(?: {NAME}){{1,3}})")
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
_TAIL = 100  # characters at the end of a text that may have a signature

NEVER = frozenset(words()["never"].split())


@cache
def known() -> tuple[frozenset[str], frozenset[str]]:
    """(given names, those of them that are no common words)."""
    lines, more_lines = (_read_list(f"given_names{name}.txt") for name in ("", "_more"))
    all_names = frozenset(bare(w.removesuffix("+")) for w in (*lines, *more_lines))
    return all_names, frozenset(w for w in lines if not w.endswith("+"))


@cache
def doubtful() -> frozenset[str]:
    """Given names that are common words, too."""
    return frozenset(word.removesuffix("+") for word in _read_list("given_names.txt") if word.endswith("+"))


_SYLLABLES = frozenset(words()["syllables"].split())


def _read_list(name: str) -> list[str]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of names; later ones may overlap earlier ones, which are more certain."""
    for match in _CALLED.finditer(text) if any(word in text for word in _CALLED_WORDS) else ():
        group = match.lastgroup or ""
        if plausible(match[group]):
            yield match.span(group)
            yield from others(text, match.end(group))
    has_owner = any(word in text for word in ("my ", "My ", "our ", "Our ", "MY ", "OUR "))
    for match in _KIN_OF.finditer(text) if has_owner else ():
        if _is_kin(match):
            yield match.span("name")
            yield from others(text, match.end("name"))
    for pattern in (_KIN_LOW, _AUNT, _OUR) if has_owner else (_AUNT,):
        for match in pattern.finditer(text):
            if given(match["name"], sure=pattern is not _KIN_LOW) or (pattern is _AUNT and plausible(match["name"])):
                yield match.span("name")
    for match in _I_AM.finditer(text):
        if _is_introduced(text, match):
            yield match.span("name")
    for match in _SPOKEN_TO.finditer(text):
        group = match.lastgroup or ""
        if plausible(match[group]) and (given(match[group]) or group == "name4"):
            yield match.span(group)
    for match in _LIFE.finditer(text):
        group = match.lastgroup or ""
        if plausible(match[group]) and (given(match[group]) or group in ("name5", "name7", "name8")):
            yield match.span(group)
    for pattern in (_HERE, _SIGNED, _DASHED) if " here" in text else (_SIGNED, _DASHED):
        for match in pattern.finditer(text, 0 if pattern is _HERE else max(0, len(text) - _TAIL)):
            if _is_signature(text, match, pattern):
                yield match.span("name")


def beside(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of full names in a text about how to reach or to pay somebody: a letter, not a list of casts."""
    for match in _WHOLE_NAME.finditer(text):
        of_a_film = _OF_A_FILM.search(text, max(0, match.start() - 20), match.start())
        if not of_a_film and match["name"].split()[0].casefold() not in NEVER and given(match["name"]):
            yield match.span("name")


def is_given(name: str) -> bool:
    """Whether it is one word, and a given name."""
    return " " not in name and given(name)


def first(name: str) -> str:
    """The first word of a name, without Mr or Dr, in lower case."""
    return re.split(r"[ .]", re.sub(f"^{TITLE}", "", name), maxsplit=1)[0].casefold()


def given(name: str, *, sure: bool = True) -> bool:
    """Whether the first word is a given name; if it is not `sure`, common words do not count."""
    all_names, sure_names = known()
    word = name.split(" ", 1)[0]
    if "-" in word and hyphened(word):
        return True
    first_word = bare(re.split(r"[ '’-]", name, maxsplit=1)[0].casefold())
    return first_word in all_names if sure and name[0].isupper() else first_word in sure_names


def any_given(words: Iterable[str]) -> bool:
    """Whether one of the words may be a given name, or begin one."""
    all_names, sure_names = known()
    upper = [word.casefold() for word in words if word[0].isupper()]
    maybe = not all_names.isdisjoint(upper) or not sure_names.isdisjoint(words) or not _SYLLABLES.isdisjoint(upper)
    return maybe or not all(map(str.isascii, words))


def hyphened(word: str) -> bool:
    """Ji-woo and Hans-Peter, but not Spider-Man."""
    left, _, right = bare(word.casefold()).partition("-")
    if left in _SYLLABLES and right in _SYLLABLES:
        return True
    all_names, sure_names = known()
    return left in sure_names and right in (all_names if word[0].isupper() else sure_names)


def bare(word: str) -> str:
    """zoe for zoë, lukasz for łukasz: the list has no accents."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFD", word).translate(_FLAT)
    return "".join(c for c in plain if not unicodedata.combining(c))


def plausible(name: str) -> bool:
    """Whether it is no common word and not in capitals only; a lower-case name needs three letters."""
    words = name.casefold().split()
    if words[0] in NEVER or (not name[0].isupper() and len(words[0]) < 3):
        return False
    return given(name) or not name.split()[0].isupper() or len(name) < 3


def _is_kin(match: re.Match[str]) -> bool:
    name, after = match["name"], match["after"]
    if re.match(TITLE, name):
        return True
    if not plausible(name):
        return False
    if match["bold"]:  # titles are set in bold more often than people
        return given(name)
    if match["comma"]:  # "my husband, Rashid, ..." but not "for my son, Frozen"
        return after in ",.);:!?" and given(name) if " " not in name else given(name) and after in ",.)"
    return given(name) or " " not in name


def others(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Names that continue a list: "and Finn"."""
    while match := _MORE.match(text, at):
        if not given(match["name"]) and not text[match.end() :].startswith((" (", " are", " and", ",")):
            return
        if match["name"].casefold() in NEVER:
            return
        yield match.span("name")
        at = match.end()


def _is_introduced(text: str, match: re.Match[str]) -> bool:
    name, after = match["name"], match["after"]
    if not plausible(name) or name.endswith(("ish", "ese")):
        return False
    greeted = bool(_GREETED.search(text, max(0, match.start() - 30), match.start()))
    closes = bool(re.match(r"\s*(?:$|[,.!;:)]|and i\b|and I\b|by the way|btw|again|from\b|here\b|\(|[-–—])", after))
    if name[0].isupper():
        continues = re.match(
            r",? (?:from|new|and I|\d|a |an )\b| \((?:pronounced|she|he|they)| by the way| btw| again|,? here", after
        )
        is_known = given(name) and (closes or " " in name)
        return bool((greeted and closes) or (is_known and (greeted or continues or " " in name)))
    return given(name, sure=False) and closes and (greeted or not match[0].lower().startswith("this"))


def _is_signature(text: str, match: re.Match[str], pattern: re.Pattern[str]) -> bool:
    name = match["name"]
    if not plausible(name):
        return False
    if pattern is _HERE:
        return given(name) or match[0][0] in ",Hh"  # after a greeting any name counts
    if pattern is _SIGNED:
        return bool(match["formal"] or "\n" in match["apart"]) or given(name)
    listed = len(re.findall(r"(?:^|\n)\s*[-–—~*•]", text)) > 1
    return not listed and given(name)


# Cheap searches: every text in which `find` finds a name matches one. They are few, as polars keeps no more than 32
# patterns compiled, and not all in one, which would be slow.
_UPPER = r"\p{Lu}"
MAYBE = (
    rf"(?-u:\b)(?:[Mm]y|[Oo]ur|MY)(?: [a-zé'’-]+){{0,6}}(?: ?\(|,)? ?[*_]{{0,2}}{_UPPER}(?:[^\W\d_]|['’])"
    r"| name(?:['’]?s| is| was)[:,]? | is my name|NAME IS | (?:called|named) "
    r"|[Cc]all me \W{0,3}\p{Lu}|(?:calls?|knows?) me |[Ii] go by |(?i:name ?: ?)\W{0,3}\pL"
    rf"|(?-u:\b)(?:[Ii]['’]?m|[Ii] am|[Tt]his is) {_UPPER}|{_UPPER}[\w'’-]* here(?-u:\b)|(?:lost|miss) my \p{{Lu}}"
    r"|(?i:aunt|auntie|uncle|grandma|grandpa|cousin|nana|nan) \pL",
    r"(?:(?i:regards|wishes|sincerely|yours|truly|signed)|[Xx]{2}|[Xx]oxo|(?-u:\b)(?i:sincerely|regards|yours|truly|signed"
    r"|wishes|thanks|you|thx|cheers|love|best|bye|ta|hugs|care|much|again|all|everyone|advance|lot|guys)[ ,.!]*"
    r"[,\n])\s*[-–—~]* ?"
    rf"{_UPPER}[\w'’ -]*[.!]?\s*$|[-–—~] ?{_UPPER}[\w'’ -]*[.!]?\s*$",
    r"(?i:hey|hi|hello|dear|thanks|thank you|it['’]s|asked|ask|tell|told|regards|wishes|sincerely|cheers|best)"
    rf",? {_UPPER}"
    rf"|{_UPPER}[\w'’-]*(?: and (?:I|me|myself)|,? (?:say|told|ask|text|call|sent|show|lent|recomm)|, ?\d\d)"
    r"|['’]s (?:birth|place|flat|numb|e-?mail|phone|insta|acc)"
    rf"|(?:me|us|myself) and {_UPPER}|(?: was| is|['’]s) (?:meant )?for {_UPPER}"
    rf"|(?i:call|text|ring|phone|mail|message|contact|dm|pm|reach|write to) {_UPPER}"
    rf"|(?i:name on |under the name|registered |attn|c/o )|(?i:ship|sen[dt]|deliver|addr|mail)[a-z]* .{{0,30}}{_UPPER}"
    rf"|(?i:from|to|cc|signed|by): ?{_UPPER}|wrote:"
    rf"|(?i:ol[aá]|hola|hallo|bonjour|salut|ciao|hej),? {_UPPER}",
    rf"(?: (?:{KIN}),?|(?-u:\b)(?:[Ii](?:['’]?m| am)|[Tt]his is)) (?:{'|'.join(sorted(known()[1]))})(?-u:\b)",
)

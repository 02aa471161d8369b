"""Names by the words around them, in many languages: greetings, farewells, "I am" and "my sister".

As in names.py, after certain words any capitalised word counts, after ambiguous ones a given name. Text in capitals is
read as if it were in normal case.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from saferec_builder.mining.privacy import names

_PHRASES: dict[str, str] = names.words()["spoken"]
_RELATIVE, _CAPITALISED, _SMALL = names.KIN, names.NAME, names.LOW
_FULL = rf"{_CAPITALISED}(?: (?!I\b){_CAPITALISED}){{0,2}}"
_INITIALS = re.compile(r"(?:[A-Z]\. ?){1,2}[A-Z]\b\.?")
_STARTS = r"(?:^|[\n.!?:,…] ?|[\"“] ?)"
_MY_KIN = rf"\b(?:[Mm]y|[Oo]ur)(?: [a-z-]+){{0,3}} (?:{_RELATIVE})"
_OTHER_KIN = rf"(?<![\w'’])(?i:{'|'.join(_PHRASES['my'].split())})(?: [^\W\d_]+)? (?i:{_PHRASES['kin']})"

# after these nearly any word is a name; a text without a word that a pattern needs is skipped
_REQUIRED = (
    f"{_PHRASES['my']} {_PHRASES['signs']}",
    "Mr Mrs Ms Miss Mx Dr Prof mr mrs ms miss dr",
    "my My our Our",
    "from",
)
_SURE = (
    re.compile(
        rf"(?<![\w'’])(?i:{_PHRASES['called']}) {names.OPEN}(?P<name>{_FULL}|{_SMALL})"
        rf"|{_OTHER_KIN}(?:,? | \()(?P<name2>{_FULL})|(?<![\w'’])(?i:{_PHRASES['mine']}),? (?P<name3>{_FULL})"
    ),
    re.compile(
        rf"{_MY_KIN},? (?:an? |old |the )?{names.TITLE}(?P<name>{_FULL})"
        rf"|(?<![\w'’-])(?:{_RELATIVE}) (?:is|was|called|named) (?i:{names.TITLE})(?P<name2>{_FULL})"
        rf"|{_STARTS}(?i:{_PHRASES['polite']}),? {names.TITLE}(?P<name3>{_FULL})"
    ),
    re.compile(
        rf"{_MY_KIN} \((?P<name>{_FULL})(?=, ?\d{{1,2}}\b|, (?:she|he|they)\b)"
        rf"|(?P<name2>{_FULL}) \((?:my|our) (?:[a-z-]+ ){{0,2}}(?:{_RELATIVE})\b(?!['’]s)"
    ),
    re.compile(
        rf"\b(?:[Ii]t['’]?s|[Tt]his is|[Ii]['’]?m|[Yy]ou['’]re) (?P<name>{_FULL})"
        r"(?= from (?:the|our|your|my|work|school|accounts|support|down|up|next|across)\b(?: [a-z]|$))"
    ),
)
_INITIALLED = re.compile(rf"{_STARTS}(?i:{_PHRASES['hail']}),? (?P<name>{_INITIALS.pattern})(?=[,!.]| *$)")

# with these contexts a given name counts: the text before it, and after it
_WHOLE_NAME = re.compile(rf"(?<![\w'’-])(?P<name>(?P<first>{_CAPITALISED})(?: (?!I\b){_CAPITALISED}){{0,2}})")
_ALONE = 6  # number of contexts for single names only; the others are for full names, too
_BEFORE = tuple(
    re.compile(f"(?:{before})$")
    for before in (
        r"\A|\n",
        rf"\b[Yy]ou (?:and|or|&) |\b[Yy]our (?:[a-z-]+ ){{0,2}}(?:{_RELATIVE}),? ",
        "",
        r"\b(?:[Aa]sk|[Tt]ell|[Tt]old|[Aa]sked) ",
        r"[^\n]{12}[a-zà-ÿ]{3}[.!…] ",
        "",
        rf"{_STARTS}(?i:{_PHRASES['hail']}),? ",
        rf"(?:^|[\s\"“(])(?i:{_PHRASES['am']}) ",
        "",
        r"[.,!?]\n\s*",
        r"\b[Yy]ours truly, ",
        r"\b(?:[Pp]rofiles?|[Aa]ccounts?|[Uu]ser|[Vv]iewer)(?: (?:named|called|for|is))? [\"“'‘]",
        r"(?:^|[.!?\n,] ?)(?:[Mm]y )?[Nn]ame:? ",
        rf"\b(?i:{_PHRASES['elder']}) ",
        rf"{_MY_KIN},? (?:who is |that is |is |that['’]s )",
    )
)
_AFTER = tuple(
    re.compile(behind)
    for behind in (
        rf", (?:{_PHRASES['answers']})(?!\w)",
        "",
        r" and you\b(?! know)",
        r" (?:I|we|he|she|they|it|not|my|hi|hello|thanks|from|how|when|why)\b",
        r" ?\.?\s*\Z",
        r" (?:is|turns|turned|just turned|will be) \d{1,2}(?! ?(?:min|ep|h|p|e|%|/|:|-|\d|\.\d|out))",
        r"(?! \()(?:[.!?,;:)…]| ?[—–-] |\s*$)",
        _PHRASES["goes_on"],
        rf"(?:, | - | ?[—–] ?)(?:[a-z]+ )?(?:my|our) (?:[a-z-]+ ){{0,2}}(?:{_RELATIVE})\b(?!['’]s)",
        r"(?:, [^\n.!?]{1,40}| ?[.!]?)\s*\Z",
        "",
        "[\"”'’]",
        " |[.,]",
        "",
        "[,.!)]",
    )
)
_FAREWELL = re.compile(
    rf"(?:^|[\n.!?,)…] ?)(?i:{_PHRASES['closing']})"
    r"(?P<apart>[^\n.,!?]{0,40}[ ,.!]*\n\s*|[^\n.,!?]{0,24}[,.!] ?| ?[-–—~]+ ?"
    r"|(?:(?<=gards)|(?<=ishes)|(?<=rüße)|(?<=Gruß)|(?<=ludos)|(?<=aluti)|(?<=jes)|(?<=ilsen)|(?<=LG)) )"
    rf"[-–—~]* ?(?P<name>{_FULL}|{_INITIALS.pattern})(?:\s*[.!]?|, [^\n.!?]{{1,40}}| \([^\n)]{{1,30}}\))\s*$"
)
_HEY = "(?:hi|hey|hello|hiya|heya|yo|sup)"
_SIGNED = r"(?:[,.!?]|\n|[-–—~]|\b(?:thanks|thx|ty|cheers|love|xx+|xo|best|regards)) ?(?:\n|[-–—~]+ ?|[xs] )"
_LOWER = re.compile(  # a given name in lower case
    rf"(?:^|[.!?\n] ?|\b(?:{_HEY}|its|it['’]s),? )(?P<name>{_SMALL}) here(?=[,.!:;]|\s*$| again| from)"
    rf"|\b{_HEY}\b[^.\n]{{0,12}} (?:this is|its|it['’]s|i['’]?m|i am) (?P<name2>{_SMALL})\b"
    rf"|(?:^|[.!?\n] ?)(?:{_HEY}|thx|thanks|ty|cheers|welcome back),? (?P<name3>{_SMALL})(?=[,.!?]|\s*$)"
    rf"|(?<![\w'’])(?i:{_PHRASES['called']}|{_PHRASES['am']}) (?P<name4>{_SMALL})(?=[,.!]|\s*$)"
    rf"|{_OTHER_KIN},? (?P<name5>{_SMALL})\b"
    rf"|{_SIGNED}(?P<name6>{_SMALL})\s*[.!x]*\s*$"
    rf"|(?:^|[.!?\n,] ?)(?P<name7>{_SMALL}) (?:says? (?:hi|hello|thanks)|sends (?:love|hugs|regards))"
)
_UPPER_WORD = rf"[{names.CAPITAL}]['’{names.CAPITAL}]*"
# a word that begins no run is passed over whole: a text of capitals alone would be searched from each letter on
_UPPER_RUN = re.compile(rf"(?P<run>(?:{_UPPER_WORD}[ ,.!?]+){{4}}(?:{_UPPER_WORD}[ ,.!?]*)*)|{_UPPER_WORD}")
_WORD = re.compile(r"[^\W\d_]+")
_TAIL, _NEAR = 140, 56


@cache
def _required() -> list[frozenset[str]]:
    return [frozenset(words.split()) for words in _REQUIRED]


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each."""
    words = frozenset(_WORD.findall(text))
    for required, pattern in zip(_required(), _SURE, strict=False):
        for match in pattern.finditer(text) if not required.isdisjoint(words) else ():
            if names.plausible(match[match.lastgroup or ""]):
                yield match.span(match.lastgroup or "")
                yield from names.others(text, match.end(match.lastgroup or ""))
    if _INITIALS.search(text):
        for match in _INITIALLED.finditer(text):
            yield match.span("name")
    yield from _closing(text, lambda match: "\n" in match["apart"] or names.given(match["name"]))
    yield from loose(text, words)


def loose(text: str, words: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
    """(start, end) of the given names among them; `words` are those of the text, if known."""
    words = words or frozenset(_WORD.findall(text))
    if not names.any_given(words):
        return
    for match in _WHOLE_NAME.finditer(text):
        if names.given(match["first"]) and names.plausible(match["first"]):
            context = text[max(0, match.start() - _NEAR) : match.start()]
            if match.start() > _NEAR:
                context = f" {context}"
            name = match["name"]
            first_context = 0 if name == match["first"] else _ALONE
            contexts = zip(_BEFORE[first_context:], _AFTER[first_context:], strict=False) if name[-2:-1] != " " else ()
            if any(after.match(text, match.end()) and before.search(context) for before, after in contexts):
                yield match.span()
    yield from _closing(text, lambda match: names.given(match["name"]))
    if not names.known()[1].isdisjoint(map(names.bare, words)):
        for match in _LOWER.finditer(text):
            if names.given(name := match[match.lastgroup or ""], sure=False) and names.plausible(name):
                yield match.span(match.lastgroup or "")


def _closing(text: str, is_name: Callable[[re.Match[str]], bool]) -> Iterator[tuple[int, int]]:
    for match in _FAREWELL.finditer(text, max(0, len(text) - _TAIL)):
        if names.plausible(match["name"]) and is_name(match):
            yield match.span("name")


def calm(text: str) -> str:
    """Rewrites runs of four or more words in capitals in normal case, with the capitals of given names."""
    return _UPPER_RUN.sub(lambda match: _WORD.sub(_in_lower, match[0]) if match["run"] else match[0], text)


def _in_lower(word: re.Match[str]) -> str:
    lower = word[0].lower()
    if len(lower) != len(word[0]) or lower in names.NEVER:
        return lower if len(lower) == len(word[0]) else word[0]
    return lower.capitalize() if names.given(lower.capitalize()) else lower


_UPPER = r"\p{Lu}"
_THEIRS = rf"(?i:{'|'.join(_PHRASES['my'].split())})(?: \pL+)? (?i:{_PHRASES['kin']})(?:,? | \()"
# Cheap searches: every text matches one if `find` finds a word there that is no given name, or if it is in capitals;
MAYBE = (
    rf"(?i:{_PHRASES['called']}) \W{{0,3}}\pL|(?i:{_PHRASES['mine']}),? {_UPPER}|{_THEIRS}{_UPPER}"
    r"|[a-z,] (?:[Mm]r|[Mm]rs|[Mm]s|[Mm]iss|Mx|[Dd]r|Prof)\.? \p{Lu}",
    rf"(?:[Ii]t['’]?s|[Tt]his is|[Ii]['’]?m|[Yy]ou['’]re) {_UPPER}[\w'’-]*(?: {_UPPER}[\w'’-]*)* from (?:the"
    rf"|[oymwsadun])"
    rf"|(?i:{_PHRASES['hail']}),? [A-Z]\. ?[A-Z]|{_UPPER}\S* \((?:my|our) ",
    rf"(?:^|[\n.!?,)…] ?)(?i:{_PHRASES['closing']})[^\n]*\n\s*[-–—~]* ?{_UPPER}[^\n]*\s*$",
    rf"(?:{_UPPER}['’\p{{Lu}}]*[ ,.!?]+){{4}}",
)
# and every text in which `loose` finds something matches one of these.
LOOSE = (
    rf"(?i:{_PHRASES['hail']}),? {_UPPER}",
    rf"(?i:{_PHRASES['am']}) \pL|(?i:{_PHRASES['elder']}) {_UPPER}",
    rf"^{_UPPER}[^,\s]*, (?:{_PHRASES['answers']})",
    rf"{_UPPER}[\w'’-]*(?:, | - | ?[—–] ?)(?:[a-z]+ )?(?:my|our) |[Yy]ou (?:and|or|&) {_UPPER}"
    rf"|[Yy]our .{{0,60}}{_UPPER}"
    rf"|{_UPPER}[\w'’-]* and you"
    r"|[.!…] \p{Lu}[\w'’-]* ?\.?\s*$|[Yy]ours truly, |(?:rofile|ccount|ser|iewer)\S*(?: [a-z]+)? [\"“'‘]"
    r"|[Nn]ame:? \p{Lu}|\p{Lu}[\w'’-]* (?:is|turns|turned|just turned|will be) \d"
    rf"|(?i:ask|tell|told|asked) {_UPPER}|\n\s*{_UPPER}[^\n]*\s*$|(?:[Mm]y|[Oo]ur) .*(?:is|['’]s) {_UPPER}",
    rf"(?i:{_PHRASES['closing']}) {_UPPER}[\w.'’ -]*[.!]?\s*$",
    rf"[,.!~—–\n-] ?{_UPPER}[\w.'’-]*(?: {_UPPER}[\w'’-]*)*(?:[.!]?|, [^\n.!?]+| \([^\n)]+\))\s*$"
    rf"|[,.!\n] ?[-–—~]+ ?{_UPPER}",
    rf"\pL here(?:[,.!:;]|\s*$| again| from)|{_HEY}[^.\n]{{0,12}} (?:this is|it['’]?s|i['’]?m|i am) \pL",
    rf"(?:^|[.!?\n] ?)(?:{_HEY}|thx|thanks|ty|cheers|welcome back),? [^\s\p{{Lu}}]+(?:[,.!?]|\s*$)|{_THEIRS}\pL",
    rf"{_SIGNED}\pL+\s*[.!x]*\s*$|\pL (?:says? (?:hi|hello|thanks)|sends (?:love|hugs|regards))",
)

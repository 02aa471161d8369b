"""Names by what is said around them, in many languages: greetings, farewells, "I am" and "my sister".

As in names.py, after sure words any capitalised word counts, after loose ones a given name. Shouted text is read as if
it were spoken calmly.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from saferec_builder.mining.privacy import names

_TOLD: dict[str, str] = names.words()["spoken"]
_RELATIVE, _CAPITALISED, _SMALL = names.KIN, names.NAME, names.LOW
_FULL = rf"{_CAPITALISED}(?: (?!I\b){_CAPITALISED}){{0,2}}"
_INITIALS = re.compile(r"(?:[A-Z]\. ?){1,2}[A-Z]\b\.?")
_STARTS = r"(?:^|[\n.!?:,…] ?|[\"“] ?)"
_MY_KIN = rf"\b(?:[Mm]y|[Oo]ur)(?: [a-z-]+){{0,3}} (?:{_RELATIVE})"
_OTHER_KIN = rf"(?<![\w'’])(?i:{'|'.join(_TOLD['my'].split())})(?: [^\W\d_]+)? (?i:{_TOLD['kin']})"

# after these nearly any word is a name; a text without one of the words of a pattern is passed by
_NEEDED = (
    f"{_TOLD['my']} {_TOLD['signs']}",
    "Mr Mrs Ms Miss Mx Dr Prof mr mrs ms miss dr",
    "my My our Our",
    "from",
)
_SURE = (
    re.compile(
        rf"(?<![\w'’])(?i:{_TOLD['called']}) {names.OPEN}(?P<name>{_FULL}|{_SMALL})"
        rf"|{_OTHER_KIN}(?:,? | \()(?P<name2>{_FULL})|(?<![\w'’])(?i:{_TOLD['mine']}),? (?P<name3>{_FULL})"
    ),
    re.compile(
        rf"{_MY_KIN},? (?:an? |old |the )?{names.TITLE}(?P<name>{_FULL})"
        rf"|(?<![\w'’-])(?:{_RELATIVE}) (?:is|was|called|named) (?i:{names.TITLE})(?P<name2>{_FULL})"
        rf"|{_STARTS}(?i:{_TOLD['polite']}),? {names.TITLE}(?P<name3>{_FULL})"
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
_INITIALLED = re.compile(rf"{_STARTS}(?i:{_TOLD['hail']}),? (?P<name>{_INITIALS.pattern})(?=[,!.]| *$)")

# beside these a given name: what stands before it, and behind it
_WHOLE = re.compile(rf"(?<![\w'’-])(?P<name>(?P<first>{_CAPITALISED})(?: (?!I\b){_CAPITALISED}){{0,2}})")
_ALONE = 6  # so many of the contexts are those of a single name, the others also of a full one
_BEFORE = tuple(
    re.compile(f"(?:{before})$")
    for before in (
        r"\A|\n",
        rf"\b[Yy]ou (?:and|or|&) |\b[Yy]our (?:[a-z-]+ ){{0,2}}(?:{_RELATIVE}),? ",
        "",
        r"\b(?:[Aa]sk|[Tt]ell|[Tt]old|[Aa]sked) ",
        r"[^\n]{12}[a-zà-ÿ]{3}[.!…] ",
        "",
        rf"{_STARTS}(?i:{_TOLD['hail']}),? ",
        rf"(?:^|[\s\"“(])(?i:{_TOLD['am']}) ",
        "",
        r"[.,!?]\n\s*",
        r"\b[Yy]ours truly, ",
        r"\b(?:[Pp]rofiles?|[Aa]ccounts?|[Uu]ser|[Vv]iewer)(?: (?:named|called|for|is))? [\"“'‘]",
        r"(?:^|[.!?\n,] ?)(?:[Mm]y )?[Nn]ame:? ",
        rf"\b(?i:{_TOLD['elder']}) ",
        rf"{_MY_KIN},? (?:who is |that is |is |that['’]s )",
    )
)
_BEHIND = tuple(
    re.compile(behind)
    for behind in (
        rf", (?:{_TOLD['answers']})(?!\w)",
        "",
        r" and you\b(?! know)",
        r" (?:I|we|he|she|they|it|not|my|hi|hello|thanks|from|how|when|why)\b",
        r" ?\.?\s*\Z",
        r" (?:is|turns|turned|just turned|will be) \d{1,2}(?! ?(?:min|ep|h|p|e|%|/|:|-|\d|\.\d|out))",
        r"(?! \()(?:[.!?,;:)…]| ?[—–-] |\s*$)",
        _TOLD["goes_on"],
        rf"(?:, | - | ?[—–] ?)(?:[a-z]+ )?(?:my|our) (?:[a-z-]+ ){{0,2}}(?:{_RELATIVE})\b(?!['’]s)",
        r"(?:, [^\n.!?]{1,40}| ?[.!]?)\s*\Z",
        "",
        "[\"”'’]",
        " |[.,]",
        "",
        "[,.!)]",
    )
)
_CLOSES = re.compile(
    rf"(?:^|[\n.!?,)…] ?)(?i:{_TOLD['closing']})"
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
    rf"|(?<![\w'’])(?i:{_TOLD['called']}|{_TOLD['am']}) (?P<name4>{_SMALL})(?=[,.!]|\s*$)"
    rf"|{_OTHER_KIN},? (?P<name5>{_SMALL})\b"
    rf"|{_SIGNED}(?P<name6>{_SMALL})\s*[.!x]*\s*$"
    rf"|(?:^|[.!?\n,] ?)(?P<name7>{_SMALL}) (?:says? (?:hi|hello|thanks)|sends (?:love|hugs|regards))"
)
_SHOUT = rf"[{names.CAPITAL}]['’{names.CAPITAL}]*"
_SHOUTED = re.compile(rf"(?:{_SHOUT}[ ,.!?]+){{4}}(?:{_SHOUT}[ ,.!?]*)*")
_WORD = re.compile(r"[^\W\d_]+")
_TAIL, _NEAR = 140, 56


@cache
def _needed() -> list[frozenset[str]]:
    return [frozenset(words.split()) for words in _NEEDED]


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each."""
    words = frozenset(_WORD.findall(text))
    for needed, pattern in zip(_needed(), _SURE, strict=False):
        for found in pattern.finditer(text) if not needed.isdisjoint(words) else ():
            if names.plausible(found[found.lastgroup or ""]):
                yield found.span(found.lastgroup or "")
                yield from names.others(text, found.end(found.lastgroup or ""))
    if _INITIALS.search(text):
        for found in _INITIALLED.finditer(text):
            yield found.span("name")
    yield from _closing(text, lambda found: "\n" in found["apart"] or names.given(found["name"]))
    yield from loose(text, words)


def loose(text: str, words: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
    """(start, end) of the given names among them; `words` are those of the text, if they are known."""
    words = words or frozenset(_WORD.findall(text))
    if not names.any_given(words):
        return
    for found in _WHOLE.finditer(text):
        if names.given(found["first"]) and names.plausible(found["first"]):
            near = text[max(0, found.start() - _NEAR) : found.start()]
            if found.start() > _NEAR:
                near = f" {near}"
            name = found["name"]
            at = 0 if name == found["first"] else _ALONE
            contexts = zip(_BEFORE[at:], _BEHIND[at:], strict=False) if name[-2:-1] != " " else ()
            if any(behind.match(text, found.end()) and before.search(near) for before, behind in contexts):
                yield found.span()
    yield from _closing(text, lambda found: names.given(found["name"]))
    if not names.known()[1].isdisjoint(map(names.bare, words)):
        for found in _LOWER.finditer(text):
            if names.given(name := found[found.lastgroup or ""], sure=False) and names.plausible(name):
                yield found.span(found.lastgroup or "")


def _closing(text: str, is_name: Callable[[re.Match[str]], bool]) -> Iterator[tuple[int, int]]:
    for found in _CLOSES.finditer(text, max(0, len(text) - _TAIL)):
        if names.plausible(found["name"]) and is_name(found):
            yield found.span("name")


def calm(text: str) -> str:
    """Four shouted words or more as if they were said calmly, with the capitals of given names."""
    return _SHOUTED.sub(lambda run: _WORD.sub(_calmed, run[0]), text)


def _calmed(word: re.Match[str]) -> str:
    low = word[0].lower()
    if len(low) != len(word[0]) or low in names.NEVER:
        return low if len(low) == len(word[0]) else word[0]
    return low.capitalize() if names.given(low.capitalize()) else low


_UPPER = r"\p{Lu}"
_THEIRS = rf"(?i:{'|'.join(_TOLD['my'].split())})(?: \pL+)? (?i:{_TOLD['kin']})(?:,? | \()"
# Cheap searches: what every text matches in which `find` finds what is no given name, or that is shouted;
MAYBE = (
    rf"(?i:{_TOLD['called']}) \W{{0,3}}\pL|(?i:{_TOLD['mine']}),? {_UPPER}",
    rf"{_THEIRS}{_UPPER}",
    r"[a-z,] (?:[Mm]r|[Mm]rs|[Mm]s|[Mm]iss|Mx|[Dd]r|Prof)\.? \p{Lu}",
    rf"(?:[Ii]t['’]?s|[Tt]his is|[Ii]['’]?m|[Yy]ou['’]re) {_UPPER}[\w'’-]*(?: {_UPPER}[\w'’-]*)* from (?:the"
    rf"|[oymwsadun])"
    rf"|(?i:{_TOLD['hail']}),? [A-Z]\. ?[A-Z]|{_UPPER}\S* \((?:my|our) ",
    rf"(?:^|[\n.!?,)…] ?)(?i:{_TOLD['closing']})[^\n]*\n\s*[-–—~]* ?{_UPPER}[^\n]*\s*$",
    rf"(?:{_UPPER}['’\p{{Lu}}]*[ ,.!?]+){{4}}",
)
# and in which `loose` finds something.
LOOSE = (
    rf"(?i:{_TOLD['hail']}),? {_UPPER}",
    rf"(?i:{_TOLD['am']}) \pL|(?i:{_TOLD['elder']}) {_UPPER}",
    rf"^{_UPPER}[^,\s]*, (?:{_TOLD['answers']})",
    rf"{_UPPER}[\w'’-]*(?:, | - | ?[—–] ?)(?:[a-z]+ )?(?:my|our) |[Yy]ou (?:and|or|&) {_UPPER}"
    rf"|[Yy]our .{{0,60}}{_UPPER}"
    rf"|{_UPPER}[\w'’-]* and you",
    r"[.!…] \p{Lu}[\w'’-]* ?\.?\s*$|[Yy]ours truly, |(?:rofile|ccount|ser|iewer)\S*(?: [a-z]+)? [\"“'‘]"
    r"|[Nn]ame:? \p{Lu}|\p{Lu}[\w'’-]* (?:is|turns|turned|just turned|will be) \d",
    rf"(?i:ask|tell|told|asked) {_UPPER}|\n\s*{_UPPER}[^\n]*\s*$|(?:[Mm]y|[Oo]ur) .{{0,99}}(?:is|['’]s) {_UPPER}",
    rf"(?i:{_TOLD['closing']}) {_UPPER}[\w.'’ -]*[.!]?\s*$",
    rf"[,.!~—–\n-] ?{_UPPER}[\w.'’-]*(?: {_UPPER}[\w'’-]*)*(?:[.!]?|, [^\n.!?]+| \([^\n)]+\))\s*$"
    rf"|[,.!\n] ?[-–—~]+ ?{_UPPER}",
    rf"\pL here(?:[,.!:;]|\s*$| again| from)|{_HEY}[^.\n]{{0,12}} (?:this is|it['’]?s|i['’]?m|i am) \pL",
    rf"(?:^|[.!?\n] ?)(?:{_HEY}|thx|thanks|ty|cheers|welcome back),? [^\s\p{{Lu}}]+(?:[,.!?]|\s*$)|{_THEIRS}\pL",
    rf"{_SIGNED}\pL+\s*[.!x]*\s*$|\pL (?:says? (?:hi|hello|thanks)|sends (?:love|hugs|regards))",
)

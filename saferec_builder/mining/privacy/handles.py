"""Handles (user names of people): by their form, or by the words with which people state them.

After words that announce nothing else ("my username is") nearly any word is a handle, after others ("Letterboxd:") a
word that is no everyday English, and after the rest ("add me:") only what looks like no word: moss_owl, Moss.Owl7.
"""

import re
from collections.abc import Iterator

from saferec_builder.mining.privacy import names
from saferec_builder.scoring.title_evidence import rarity

_WORDS: dict[str, str] = names.words()["handles"]
_FORMED = re.compile(
    r"(?<![\w/])/?[uU]/[\w-]{3,20}(?![\w/])"
    # @home is a place, @everyone no person, @7pm a time, @media code
    r"|(?<![^\W_])(?<![@./\]])@"
    r"(?!(?i:\d+(?:[.:]\d+)?(?:[apxhk]|[ap]m|fps|hz|ish|min|st|nd|rd|th)|home|work|school|uni|all|everyone|everybody"
    r"|here|channel|least|last|once|night|noon|midnight|dawn|me|my|the|a|an|this|that|your|our"
    r"|media|import|property|override)(?![\w-]|\.\w))"
    r"(?=[\w.-]*[^\W\d_])_{0,3}[^\W_](?:[\w.-]{0,28}\w)?(?:@(?:[\w-]{1,63}\.){1,4}[^\W\d_]{2,24}\b)?"
    r"|(?:\b[A-Z]\w{1,31} )?\b[A-Za-z][\w.]{1,31}#\d{4,5}\b"
    r"|\bSW(?:-\d{4}){3}\b|\b7656119\d{10}\b"
)
_OFFICIAL = re.compile(
    rf"@(?:{'|'.join(names.words()['sites'].split())}|{names.words()['official']})(?:_?(?:uk|us|in|de|fr|es|it"
    rf"|hd|tv|help|helps|support|official|films?|movies?|games?))?",
    re.I,
)

_PLACE, _TERM, _OWN, _MY, _NOUN = (f"(?:{_WORDS[key]})" for key in ("places", "terms", "own", "my", "nouns"))
_IS = r"(?: ?[:=] ?| (?:is|was|ist|est|es|é|è|to|är|er|jest|on)(?: (?:still|now|just|simply|also))? |['’]s | [–—-] )"
_WHERE = r"(?: (?:on|at|in|over|back|there|everywhere)(?: [^\s.,:!?\[]+){0,2})?"
# what stands before a handle, the clearest first
_SURE = (
    rf"{_TERM}{_WHERE}{_IS}|{_MY} (?:[^\s.,:!?\[]+ )?{_OWN}{_WHERE}{_IS}|{_OWN}{_WHERE} ?: ?|{_PLACE} {_NOUN}{_IS}"
    r"|(?:log|sign)(?:ged|ned|ging|ning)?[ -]in as |account (?:called|named) "
)
_CLEAR = (
    rf"{_MY} {_PLACE}{_IS}|{_PLACE}(?: ?[:=] ?| [–—-] )"
    rf"|(?:on|at|in|auf|bei|sur|en|no|na|su|op|på) {_PLACE},?(?: as| i['’]?m| i am| under| als| ich bin"
    rf"| je suis| soy| sou| sono)(?: called)? |ich bin (?:auf|bei) {_PLACE} "
    rf"|{_TERM} |{_MY} {_OWN} |the (?:handle|nick|alias) |{_PLACE} {_NOUN} "
    r"|(?:post|review|write|play|stream)(?:s|ed|ing)? under the name "
    r"|(?:find|follow|add|reach|know) me (?:(?:over )?(?:(?:on|at|in) [^\s.,:!?\[]+(?: [^\s.,:!?\[]+)?|there|here"
    r"|online) )?as "
)
_LOOSE = rf"(?:user|account|{_OWN}|tag|id)(?: is)?(?: under)?(?:{_IS}| )|(?:add|friend) me[:!,. ]{{1,4}}"
_FAINT = (
    rf"{_PLACE}(?: me)?,? |(?:posted|sent|written|made|uploaded|shared) by (?:user )?|in-game i['’]?m called "
    r"|i (?:go|post|tweet|stream|play|write|review)(?: [a-z]+){0,2} (?:as|by|under) |(?:i['’]?m|i am) "
)
_LED = r"(?:i['’]?m|i am|it['’]?s|me|as|by|add|find|follow|called|soy|je suis|sou|sono|ik ben|jestem) "
_ON = rf" (?:(?:over )?on|en|sur|no|su|op|på|na|auf) (?:{_PLACE}|there)"
_IN_BRACKETS = rf" [(\[]{_PLACE}[)\]]"
_OPEN = r"[\"“'‘*(`]{0,2}@?"
_TOKEN = r"(?P<handle>_{0,3}[^\W_](?:[.-]?\w){1,30}+(?:#\w{3,5})?)(?![\w@/(\[#]|['’]\w)"
_ENDS = re.compile(
    r"[\"”'’*)`\]]{0,2}(?:\s*(?:$|[,;:!?)\]\n|/]|\.(?!\w)|[–—-] )"
    r"| (?:if|and|but|or|on|there|here|everywhere|for|so|add|dm|hmu|is|was|has|since|said|from|u|und|et|y|e|i|och)\b)"
)
_NO_HANDLE = re.compile(
    r"\d+(?:[a-z]{1,3})?|[\d.,-]+|s\d+e\d+\w*|tt\d+|v\d[\w.-]*|ps\d|.*\.(?:com|net|org|tv|me|io|app|mkv|mp[34]|avi|srt"
    rf"|zip|pdf|txt|csv|jpe?g|png|gif)|{_WORDS['none']}",
    re.I,
)
_ENDING = re.compile(r".*(?:ed|ing|ly|al|[ai]ble)")
_OF_WORDS = re.compile(r".*(?:ful|less|ous|ive|ier|est|ic|tion|ness|ity|ism|ist|ish|like|ment)s?")
_ODD = re.compile(r".*_.*|.*[^\W\d_].*\d.*|.*\w\.\w.*|.*[a-z][A-Z].*|.*#.*|.*-.*-.*|.*-\d+")
_ODDER = re.compile(r".*[^\W_]_+(?:[^\W_].*)?|[^\W\d_]{3,}\d+")


def _sure(token: str, ends: bool) -> bool:
    return _is_odd(token) or (ends and len(token) > 2 and _is_no_word(token.lower()))


def _clear(token: str, ends: bool) -> bool:
    rare = ends and len(token) > 5 and token.islower() and _is_no_word(token) and not _OF_WORDS.fullmatch(token)
    return rare or _loose(token, ends)


def _loose(token: str, ends: bool) -> bool:
    return _is_odd(token) and (ends or "_" in token or any(map(str.isdigit, token)))


def _faint(token: str, ends: bool) -> bool:
    return bool(_ODDER.fullmatch(token)) and _is_odd(token)


def _is_odd(token: str) -> bool:
    return bool(_ODD.fullmatch(token)) and not _NO_HANDLE.fullmatch(token)


def _is_no_word(token: str) -> bool:
    return token.isalpha() and rarity(token) > 1 and not _ENDING.fullmatch(token) and not _NO_HANDLE.fullmatch(token)


def _pattern(cue: str, after: str = "") -> re.Pattern[str]:
    """Nothing that it matches contains or follows a placeholder: masking other data shows no new handle."""
    return re.compile(rf"(?<![\w@/.?&\]-]){cue}{_TOKEN}{after}", re.I)


_STATED = (
    (_pattern(f"(?:{_SURE}){_OPEN}"), _sure),
    (_pattern(f"(?:{_CLEAR}){_OPEN}"), _clear),
    (_pattern(f"(?:{_LOOSE}){_OPEN}"), _loose),
    (_pattern(f"{_LED}@?", rf"(?={_ON}\b)"), _clear),
    (_pattern(f"(?:{_FAINT}){_OPEN}"), _faint),
    (_pattern("", f"(?={_IN_BRACKETS})"), lambda token, _: "_" in token and _is_odd(token)),
)


def find(text: str, stated: bool = True) -> Iterator[tuple[int, int]]:
    """(start, end) of each; those that are stated in words only if `stated`."""
    if "@" in text or "#" in text or "u/" in text or "U/" in text or "SW-" in text or "7656119" in text:
        yield from (match.span() for match in _FORMED.finditer(text) if not _OFFICIAL.fullmatch(match[0]))
    for pattern, is_handle in _STATED if stated else ():
        for match in pattern.finditer(text):
            if is_handle(match["handle"], bool(_ENDS.match(text, match.end()))):
                yield match.span("handle")


# Every text with a stated handle matches one of these.
MAYBE = (
    rf"(?i:(?:^|[^\pL\d])(?:{_SURE}|{_CLEAR}){_OPEN}_*[\pL\d])",
    rf"(?i:(?:^|[^\pL\d])(?:(?:{_LOOSE}){_OPEN}[\w.-]*(?:[\d_.#-]|\p{{Ll}}(?-i:\p{{Lu}}))"
    rf"|(?:{_FAINT}){_OPEN}[\w.-]*(?:[\pL\d]_|\pL{{3}}\d))|{_LED}@?[\w.#-]+{_ON}|[_\d][\w.-]*{_IN_BRACKETS})",
)

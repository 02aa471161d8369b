"""Removes personal data from a text before anything else reads it: typed placeholders such as [email] and [name].

The search reads a plain spelling of the text (folding.py) and masks its matches at their place in the original.
Structured kinds (email, phone, ip, card, url: the user's part, handle, address) are found by their form, names by the
words before a name of the writer or of somebody in their life. Names of films, casts and characters stay. Recall and
precision per kind are measured on tests/data/privacy*.txt; docs/mining.md states them.
"""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import polars as pl

from saferec_builder.mining import rules_version as versions
from saferec_builder.mining.privacy import addresses, folding, handles, in_passing, names, numbers, spoken
from saferec_builder.mining.privacy.folding import Folded, fold_all

KINDS = ("email", "phone", "ip", "card", "url", "handle", "address", "name")
_PASSING = "name in passing"  # a separate kind until titles are distinguished from names
_LIKE_TITLES = ("name", _PASSING, "address", "handle")
_LETTER_KINDS = ("email", "phone", "card", "address")  # a text with one of these is a letter, not about casts
Spans = Iterable[tuple[int, int]]
Found = tuple[int, int, str]  # start, end, kind
Known = defaultdict[object, set[str]]  # conversation -> first words of the names in it, in lower case
Titles = Callable[[str], Spans]  # the spans of catalog titles in a text: those stay
_PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(KINDS)})\]")

_DIGIT = re.compile(r"\d")
_HIDDEN_DOT = r"(?:\(dot\)|\[dot\]|\{dot\}|\[\.\]|\(\.\)| dot )"
_MAIL_HOST = r"(?:gmail|googlemail|hotmail|outlook|yahoo|ymail|icloud|protonmail|proton|aol|gmx|yandex|fastmail|zoho)"
_EMAIL = re.compile(
    r"(?<![\w.+'’-])[\w.+'’-]{0,63}\w@(?:[\w-]{1,63}\.){1,6}[^\W\d_]{2,24}\b"
    r"|(?<![\w.+-])[\w.+-]{1,64}+(?:"
    rf" ?(?:\(at\)|\[at\]|\{{at\}}|<at>) ?(?:[\w-]{{1,63}} ?(?:{_HIDDEN_DOT}|\.) ?){{1,4}}[a-z]{{2,6}}\b"
    rf"| ?@ ?(?:[\w-]{{1,63}} ?(?:{_HIDDEN_DOT}|\.) ?){{0,3}}[\w-]{{1,63}} ?{_HIDDEN_DOT} ?[a-z]{{2,6}}\b"
    r"| at (?:[\w-]{1,63} dot ){1,4}[a-z]{2,6}\b"
    r"|(?<=[a-z\d]) (?-i:AT (?:[a-z\d-]{1,63}\.){1,4}[a-z]{2,6}\b)"
    r"|(?<!\blook)(?<!looked)(?<!looking)(?<!\bwork)(?<!works)(?<!working)(?<!account)(?<!\bme)(?: ?@ ?| at )"
    rf"{_MAIL_HOST}(?:\.[a-z]{{2,3}}){{1,2}}\b)",
    re.I,
)
_MAIL = re.compile(rf"@|[([{{<]at[)\]}}>]| dot | AT |[ ]{_MAIL_HOST}\.", re.I)
_URL = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,15}://|\bwww\."
    r"|\b(?:[\w-]{1,63}\.){1,4}(?:com|net|org|tv|me|io|app|social)/)[^\s<>\"]{1,2000}",
    re.I,
)
# Sites of many users, where only the user's part of a link is personal; every other link may be personal as a whole.
_SHARED_SITE = re.compile(
    rf"(?:[a-z][a-z0-9+.-]*://)?(?:[\w-]+\.)*(?:{'|'.join(names.words()['sites'].split())})"
    r"\.(?:com?|org|net|tv|fm|me|it|be|gd|io)(?:\.[a-z]{2})?(?::\d+)?(?:[/?#]|$)",
    re.I,
)
_USER = r"@?+(?!\[|show/|view/)([^\s/?#&=,;!\"')\]]*[\w-])"
_USER_IN_URL = [
    re.compile(pattern, re.I)
    for pattern in (
        r"^[a-z][a-z0-9+.-]*://(?!\[)([^\s/@?#]+)@",
        r"/(?:users?|u|profiles?|members?|people|in|id)/(?:show/|view/)?" + _USER,
        r"/@([\w.-]*\w)",
        r"reddit\.com/r/\w+/comments/([\w/]*\w)",
        r"[?&](?:user|username|uid|user_?id|userid|author|member)=(?!\[)([^\s&#]+)",
        r"//([\w-]+)\.(?:tumblr|blogspot|wordpress|livejournal|substack|bandcamp|deviantart)\.",
        r"facebook\.com/profile\.php\?id=(\d+)",
        r"(?<![\w.-])wa\.me/\+?(\d{6,15})",
        r"(?:youtube\.com/(?:user|c)/|(?<![\w.-])t\.me/)" + _USER,
        r"(?<![\w-])(?:letterboxd|twitter|x|instagram|facebook|github|pinterest|twitch|snapchat|threads|medium|ko-fi"
        r"|patreon|soundcloud|last\.fm)\.(?:com|tv|net)/"
        r"(?!(?:films?|lists?|search|actor|director|about|members|journal|hashtag|i|home|share|sharer|intent|p|reels?"
        r"|explore|stories|tv|groups|events|watch|pages|photo|photos|features|topics|orgs|login|directory|videos|tag"
        r"|pin|posts?|profile\.php|u|user|users|id|in)(?:[/?#.]|$))" + _USER,
    )
]

_LABELLED = re.compile(r"\[([^\[\]\n]{1,100})\]\(([^\s)]{1,2000})")  # a link of Markdown: its text, its address


def find(
    text: str,
    titles: Titles | None = None,
    leave: Container[str] = (),
    known: Collection[str] = (),
    stated: bool = True,
) -> list[Found]:
    """Every piece of personal data in a text, in order, without overlaps; a title of the catalog is none.

    `leave` names kinds with another meaning in a source: ReDial writes @ before a film. `known` are names that were
    found elsewhere in the same conversation. Handles that only the words before them show are found if `stated`.
    """
    plain = Folded(text)
    accepted: list[Found] = []  # sorted, for a pasted log may have thousands
    for start, end, kind in _candidates(plain.text, known, stated):
        place = bisect_left(accepted, (end,))
        if kind not in leave and (not place or accepted[place - 1][1] <= start):
            accepted.insert(place, (start, end, kind))
    matches = [(*plain.span(start, end), kind) for start, end, kind in accepted]
    if titles and any(kind in _LIKE_TITLES for *_, kind in matches):
        is_title = _title_test(text, frozenset(titles(text)))
        matches = [m for m in matches if m[2] not in _LIKE_TITLES or not is_title(m)]
    matches = [(start, end, "name" if kind == _PASSING else kind) for start, end, kind in matches]
    hidden = [placeholder.span() for placeholder in _PLACEHOLDER.finditer(text)] if matches else []
    last = (bisect_right(hidden, (m[0], len(text))) - 1 for m in matches)  # the last placeholder that begins before it
    return [m for m, n in zip(matches, last, strict=True) if n < 0 or hidden[n][1] < m[1]]


def _title_test(text: str, spans: Collection[tuple[int, int]]) -> Callable[[Found], bool]:
    """Returns a test: is every letter of a match in a title? An address or a handle that only contains one is not.

    A single given name is part of a title only if the title continues, with its year or another word: Emma is a film,
    too. If it was found in passing it is the title, for there the film is more likely.
    """
    in_title = bytearray(len(text))
    for start, end in spans:
        in_title[start:end] = b"\1" * (end - start)

    def is_title(match: Found) -> bool:
        start, end, kind = match
        if kind == "name" and (start, end) in spans and names.is_given(text[start:end]):
            return False
        if kind == "handle" and "_" in text[start:end]:
            return False
        return all(in_title[n] for n in range(start, end) if text[n].isalnum())

    return is_title


def redact(
    text: str,
    titles: Titles | None = None,
    leave: Container[str] = (),
    known: set[str] | None = None,
    stated: bool = True,
) -> tuple[str, Counter[str]]:
    """(the text with placeholders, the number of each kind); a text that was redacted before is unchanged. Adds the
    names that it finds to the `known` ones.

    A placeholder may expose a further match, so the search repeats until it finds nothing: a later search of the
    release finds nothing either.
    """
    known = set() if known is None else known
    counts: Counter[str] = Counter()
    while matches := find(text, titles, leave, known, stated):
        parts, last_end = list[str](), 0
        for start, end, kind in matches:
            if kind == "name":
                known.add(names.first(text[start:end]))
            parts += (text[last_end:start], f"[{kind}]")
            last_end = end
        text = "".join((*parts, text[last_end:]))
        counts.update(kind for *_, kind in matches)
    return text, counts


def redact_all(
    texts: pl.Series,
    talks: pl.Series | None = None,
    titles: Titles | None = None,
    leave: Container[str] = (),
    known: Known | None = None,
    own: Mapping[object, Sequence[str]] = MappingProxyType({}),
) -> tuple[pl.Series, Counter[str]]:
    """`redact` over many texts; texts in which nothing can be found are skipped at the speed of a search.

    `talks`: the conversation of each text. A name found in one of its texts is masked in all of them, as are the names
    that are `known` of it; new names are added to these. `own`: titles that stay in the texts of a conversation.
    """
    counts: Counter[str] = Counter()
    known = Known(set) if known is None else known

    def mask(places: pl.Series) -> pl.Series:
        changed = []
        of_talks = places if talks is None else talks.gather(places)
        for text, talk, states in zip(texts.gather(places), of_talks, stated.gather(places), strict=True):
            clean, kinds = redact(text, _with_own(titles, own.get(talk, ())), leave, known[talk], states)
            counts.update(kinds)
            changed.append(clean)
        return texts.clone().scatter(places, changed) if changed else texts

    plain = fold_all(texts)
    stated = _matches_any(plain, handles.MAYBE)
    suspects = _matches_any(plain, _SHAPED) | in_passing.somewhere(plain)
    named, loose = _matches_any(plain, (*names.MAYBE, *spoken.MAYBE)), _matches_any(plain, spoken.LOOSE)
    for maybe, search in ((stated, handles.find), (named, _named), (loose, spoken.loose)):
        places = (~suspects & maybe).arg_true()
        suspects = suspects.scatter(places, [any(True for _ in search(text)) for text in plain.gather(places)])
    texts = mask(suspects.arg_true())
    with_names = [talk for talk, known_names in known.items() if known_names]
    if talks is not None and with_names:
        texts = mask((talks.is_in(pl.Series(with_names, dtype=talks.dtype).implode()) & texts.is_not_null()).arg_true())
    return texts, counts


def _with_own(titles: Titles | None, own: Sequence[str]) -> Titles | None:
    """Adds every place of these titles, in any case."""
    if not own:
        return titles
    words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(own, key=len, reverse=True)))})(?!\w)", re.I)
    return lambda text: [*(titles(text) if titles else ()), *(match.span() for match in words.finditer(text))]


def suspect(texts: pl.Series) -> pl.Series:
    """Which of many texts may contain a structured kind: `find` finds none in the others."""
    return _matches_any(fold_all(texts), (*_SHAPED, *handles.MAYBE))


def _matches_any(plain: pl.Series, patterns: Iterable[str]) -> pl.Series:
    return pl.select(pl.any_horizontal(map(plain.str.contains, patterns))).to_series()


@cache
def rules() -> str:
    """The name of this version of the search: texts that went through another one are mined again."""
    samples = versions.samples("privacy")
    titled, left, talks = samples.pop("titled"), samples.pop("left"), samples.pop("conversations")
    clean, counts = redact_all(pl.Series([text for texts in samples.values() for text in texts]))
    with_titles = [redact(text, _places(titles))[0] for text, *titles in titled]
    talk_numbers = pl.Series([n for n, talk in enumerate(talks) for _ in talk])
    by_talk = redact_all(pl.Series([text for talk in talks for text in talk]), talk_numbers)[0].to_list()
    answers = [clean.to_list(), counts, with_titles, by_talk, [redact(text, leave={"handle"})[0] for text in left]]
    lists = [*map(sorted, names.known()), *(sorted(map(str, part.items())) for part in in_passing.model())]
    digests = [hashlib.blake2b(" ".join(words).encode()).hexdigest() for words in lists]  # the lists are too long
    parts = map(vars, (addresses, folding, handles, in_passing, names, numbers, spoken))
    return versions.named(answers, globals(), *parts, {"given": digests})


def _places(titles: Iterable[str]) -> Titles:
    """Finds the first place of each title."""
    return lambda text: [(start, start + len(title)) for title in titles if (start := text.find(title)) >= 0]


def _candidates(text: str, known: Collection[str], stated: bool) -> Iterator[Found]:
    """Candidates, the more certain kinds first; a house number and a postcode are no phone. No pattern runs over a text
    that lacks a character which all its matches have."""
    is_letter = False
    for match in _structured(text, stated):
        is_letter |= match[2] in _LETTER_KINDS
        yield match
    first_words = set(known)
    for start, end in (*_named(text), *(names.beside(text) if is_letter else ())):
        first_words.add(names.first(text[start:end]))
        yield start, end, "name"
    for start, end in in_passing.find(text):
        first_words.add(names.first(text[start:end]))
        yield start, end, _PASSING
    for start, end in in_passing.again(text, first_words):
        yield start, end, _PASSING


def _named(text: str) -> Iterator[tuple[int, int]]:
    calm = spoken.calm(text)
    yield from names.find(calm)
    yield from spoken.find(calm)


def _structured(text: str, stated: bool) -> Iterator[Found]:
    digits = len(_DIGIT.findall(text))
    yield from _links(text)
    if _MAIL.search(text):
        yield from ((*match.span(), "email") for match in _EMAIL.finditer(text))
    if digits > 3 or text.count(":") > 1:
        yield from numbers.find(text)
    yield from ((*span, "handle") for span in handles.find(text, stated))
    yield from ((*span, "handle") for span in _names_of_links(text))
    if digits:
        yield from ((*span, "address") for span in addresses.find(text))
    if digits > 5:
        yield from ((*span, "phone") for span in numbers.phones(text))


def _links(text: str) -> Iterator[Found]:
    for link in _URL.finditer(text) if "/" in text or "www" in text.lower() else ():
        if not _SHARED_SITE.match(link[0]) and "[" not in link[0]:
            yield link.start(), link.start() + len(link[0].rstrip(".,;:!?)]'*_")), "url"
        for pattern in _USER_IN_URL:
            for user in pattern.finditer(link[0]):
                yield link.start() + user.start(1), link.start() + user.end(1), "url"


def _names_of_links(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the user in the text of a link to their page: "[moss_owl](https://reddit.com/user/moss_owl)"."""
    for link in _LABELLED.finditer(text) if "](" in text else ():
        users = {user[1] for pattern in _USER_IN_URL for user in pattern.finditer(link[2]) if len(user[1]) > 2}
        for user in sorted(users):
            for name in re.finditer(rf"(?<!\w){re.escape(user)}(?!\w)", link[1], re.I):
                yield link.start(1) + name.start(), link.start(1) + name.end()


# Every text with one of these kinds matches them: cheap for the Rust engine, which searches every text.
_SHAPED = (
    r"@[\d.-]*[\pL_]|#\d{4}"
    r"|(?i:://|www\.|\.(?:com|net|org|tv|me|io|app|social)/|[(\[{<]at[)\]}>]| dot )|[uU]/[\w-]{3}"
    rf"|[(\[{{](?:[dD][oO][tT]|\.)[)\]}}]| AT [a-z\d]|(?i:[ @]{_MAIL_HOST}\.)"
    r"|\d(?:[\s.()-]{0,3}\d){5}|\d\.\d{1,3}\.\d|:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]",
    r"\d[A-Za-z]?,? [A-Z\d].*(?:Str|St|R(?:oad|d|ow)|Ave|L(?:ane|n)|Dr|Bo?u?le?v|C(?:our|lo|r|ir|t)|W(?:ay|alk)"
    r"|Terr|Pl|Par|Gard|View|Sq|Trail|Mews|High)|Box \d|\d,? (?:bis |ter )?(?i:rue|avenue|boul|place|chem|imp|quai|all)"
    r"|\d[A-Z]{2}\b|[A-Z]\d[\dW] ?[A-Z\d]{4}|\d[A-Z]\d|\d[a-z]{2}\b|[A-Za-z]\.? \d.*,? \d\d|[a-z] \d{5}"
    r"|No:? ?\d|\d[a-z]?,.{0,12} \d{4}|(?:stra(?:ß|ss)e|str\.|weg|platz|allee|gasse) \d|(?:Calle|Avenida"
    r"|Plaza|Paseo) [A-Z]",
)

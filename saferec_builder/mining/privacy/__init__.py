"""Personal data out of a text, before anything else sees it: typed placeholders such as [email] and [name].

The search reads a plain spelling of the text (folding.py) and hides what it finds where it stands in the original.
Structured kinds (email, phone, ip, card, url: the user's part, handle, address) go by their shape, names by what people
write before a name of their own or of somebody in their life. Names of films, casts and characters stay. Recall and
precision per kind are measured on tests/data/privacy*.txt; docs/mining.md states them.
"""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import cache

import polars as pl

from saferec_builder.mining import rules_version as versions
from saferec_builder.mining.privacy import addresses, folding, in_passing, names, numbers, spoken
from saferec_builder.mining.privacy.folding import Folded, fold_all

KINDS = ("email", "phone", "ip", "card", "url", "handle", "address", "name")
_PASSING = "name in passing"  # a kind of its own until titles are told from names
_LIKE_TITLES = ("name", _PASSING, "address", "handle")
_REACHES = ("email", "phone", "card", "address")  # a text with one of these is a letter, not talk about casts
Spans = Iterable[tuple[int, int]]
Found = tuple[int, int, str]  # start, end, kind
Known = defaultdict[object, set[str]]  # conversation -> first words of names that stand in it, in lower case
Titles = Callable[[str], Spans]  # where titles of the catalog stand in a text: those stay
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
# Pages of many people, on which only the user's part tells of anybody; every other link may be somebody's own.
_SHARED = re.compile(
    rf"(?:[a-z][a-z0-9+.-]*://)?(?:[\w-]+\.)*(?:{'|'.join(names.words()['sites'].split())})"
    r"\.(?:com?|org|net|tv|fm|me|it|be|gd|io)(?:\.[a-z]{2})?(?::\d+)?(?:[/?#]|$)",
    re.I,
)
_USER = r"@?+(?!\[|show/|view/)([^\s/?#&=,;!\"')\]]*[\w-])"
_IN_URL = [
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
_HANDLE = re.compile(
    r"(?<![\w/])/?[uU]/[\w-]{3,20}(?![\w/])"
    # @home is a place, @everyone nobody, @7pm a time
    r"|(?<![^\W_])(?<![@./\]])@"
    r"(?!(?i:\d+(?:[.:]\d+)?(?:[apxhk]|[ap]m|fps|hz|ish|min|st|nd|rd|th)|home|work|school|uni|all|everyone|everybody"
    r"|here|channel|least|last|once|night|noon|midnight|dawn|me|my|the|a|an|this|that|your|our)(?![\w-]|\.\w))"
    r"(?=[\w.-]*[^\W\d_])_{0,3}[^\W_](?:[\w.-]{0,28}\w)?"
    r"|(?:\b[A-Z]\w{1,31} )?\b[A-Za-z][\w.]{1,31}#\d{4}\b"
)
_OFFICIAL = re.compile(
    rf"@(?:{'|'.join(names.words()['sites'].split())}|{names.words()['official']})(?:_?(?:uk|us|in|de|fr|es|it"
    rf"|hd|tv|help|helps|support|official|films?|movies?|games?))?",
    re.I,
)


def find(
    text: str, titles: Titles | None = None, leave: Container[str] = (), known: Collection[str] = ()
) -> list[Found]:
    """Every piece of personal data in a text, in order, none overlapping; a title of the catalog is none.

    `leave` names kinds that mean something else in a source: ReDial writes @ before a film. `known` are names that were
    found elsewhere in the same talk.
    """
    plain = Folded(text)
    taken: list[Found] = []  # in order, for a log that somebody pasted may hold thousands
    for start, end, kind in _every(plain.text, known):
        at = bisect_left(taken, (end,))
        if kind not in leave and (not at or taken[at - 1][1] <= start):
            taken.insert(at, (start, end, kind))
    here = [(*plain.span(start, end), kind) for start, end, kind in taken]
    if titles and any(kind in _LIKE_TITLES for *_, kind in here):
        is_title = _titled(text, frozenset(titles(text)))
        here = [f for f in here if f[2] not in _LIKE_TITLES or not is_title(f)]
    here = [(start, end, "name" if kind == _PASSING else kind) for start, end, kind in here]
    hidden = [found.span() for found in _PLACEHOLDER.finditer(text)] if here else []
    last = (bisect_right(hidden, (f[0], len(text))) - 1 for f in here)  # the last placeholder that begins before it
    return [f for f, n in zip(here, last, strict=True) if n < 0 or hidden[n][1] < f[1]]


def _titled(text: str, named: Collection[tuple[int, int]]) -> Callable[[Found], bool]:
    """Is it a title, each letter of it: an address or a handle in which one stands is more than that.

    A single given name is one only where the title goes on, with its year or another word: Emma is a film, too. Only in
    passing it is one, for there the film is likelier.
    """
    inside = bytearray(len(text))
    for start, end in named:
        inside[start:end] = b"\1" * (end - start)

    def is_title(found: Found) -> bool:
        start, end, kind = found
        if kind == "name" and (start, end) in named and names.is_given(text[start:end]):
            return False
        if kind == "handle" and "_" in text[start:end]:
            return False
        return all(inside[n] for n in range(start, end) if text[n].isalnum())

    return is_title


def redact(text: str, titles: Titles | None = None, leave: Container[str] = ()) -> tuple[str, Counter[str]]:
    """(the text with placeholders, how many of each kind); a text that went through comes out as it is.

    A placeholder may show what stood in its shadow, so the search goes on until it finds nothing: a release that looks
    again finds nothing either.
    """
    return _redact(text, titles, leave, set())


def _redact(text: str, titles: Titles | None, leave: Container[str], known: set[str]) -> tuple[str, Counter[str]]:
    """`redact`; the names that are found join the known ones."""
    counts: Counter[str] = Counter()
    while found := find(text, titles, leave, known):
        parts, at = list[str](), 0
        for start, end, kind in found:
            if kind == "name":
                known.add(names.first(text[start:end]))
            parts += (text[at:start], f"[{kind}]")
            at = end
        text = "".join((*parts, text[at:]))
        counts.update(kind for *_, kind in found)
    return text, counts


def redact_all(
    texts: pl.Series,
    talks: pl.Series | None = None,
    titles: Titles | None = None,
    leave: Container[str] = (),
    known: Known | None = None,
) -> tuple[pl.Series, Counter[str]]:
    """`redact` over many texts; those in which nothing can be found are passed by at the speed of a search.

    `talks`: the conversation of each text. A name that is found in one of its texts is hidden in all of them, as are
    those that are `known` of it already; what is found joins them.
    """
    counts: Counter[str] = Counter()
    known = Known(set) if known is None else known

    def hide(at: pl.Series) -> pl.Series:
        changed = []
        for text, talk in zip(texts.gather(at), at if talks is None else talks.gather(at), strict=True):
            clean, kinds = _redact(text, titles, leave, known[talk])
            counts.update(kinds)
            changed.append(clean)
        return texts.clone().scatter(at, changed) if changed else texts

    plain = fold_all(texts)
    maybe = _any_of(plain, (*_SHAPED, *names.MAYBE, *spoken.MAYBE)) | in_passing.somewhere(plain)
    at = (~maybe & _any_of(plain, spoken.LOOSE)).arg_true()
    loose = at.filter(pl.Series([any(True for _ in spoken.loose(text)) for text in plain.gather(at)], dtype=pl.Boolean))
    texts = hide(pl.concat([maybe.arg_true(), loose]).sort())
    named = [talk for talk, some in known.items() if some]
    if talks is not None and named:
        texts = hide((talks.is_in(pl.Series(named, dtype=talks.dtype).implode()) & texts.is_not_null()).arg_true())
    return texts, counts


def suspect(texts: pl.Series) -> pl.Series:
    """Which of many texts may hold something of a structured kind: `find` finds none in the others."""
    return _any_of(fold_all(texts), _SHAPED)


def _any_of(plain: pl.Series, patterns: Iterable[str]) -> pl.Series:
    return pl.select(pl.any_horizontal(map(plain.str.contains, patterns))).to_series()


@cache
def rules() -> str:
    """The name of this search: what went through another one is mined again."""
    given = versions.samples("privacy")
    titled, left, talks = given.pop("titled"), given.pop("left"), given.pop("conversations")
    clean, counts = redact_all(pl.Series([text for texts in given.values() for text in texts]))
    beside = [redact(text, _standing(titles))[0] for text, *titles in titled]
    of_talk = pl.Series([n for n, talk in enumerate(talks) for _ in talk])
    together = redact_all(pl.Series([text for talk in talks for text in talk]), of_talk)[0].to_list()
    answers = [clean.to_list(), counts, beside, together, [redact(text, leave={"handle"})[0] for text in left]]
    lists = [*map(sorted, names.known()), *(sorted(map(str, part.items())) for part in in_passing.model())]
    known = [hashlib.blake2b(" ".join(some).encode()).hexdigest() for some in lists]  # too many for a look at each
    parts = map(vars, (addresses, folding, in_passing, names, numbers, spoken))
    return versions.named(answers, globals(), *parts, {"given": known})


def _standing(titles: Iterable[str]) -> Titles:
    """Finds the first place of each."""
    return lambda text: [(at, at + len(title)) for title in titles if (at := text.find(title)) >= 0]


def _every(text: str, known: Collection[str]) -> Iterator[Found]:
    """Candidates, the surer kind first; a house number and a postcode are no phone.

    No pattern runs over a text that lacks the character which all its matches have.
    """
    reached = False
    for found in _structured(text):
        reached |= found[2] in _REACHES
        yield found
    here = set(known)
    calm = spoken.calm(text)
    for start, end in (*names.find(calm), *spoken.find(calm), *(names.beside(text) if reached else ())):
        here.add(names.first(text[start:end]))
        yield start, end, "name"
    for start, end in in_passing.find(text):
        here.add(names.first(text[start:end]))
        yield start, end, _PASSING
    for start, end in in_passing.again(text, here):
        yield start, end, _PASSING


def _structured(text: str) -> Iterator[Found]:
    digits = len(_DIGIT.findall(text))
    yield from _links(text)
    if _MAIL.search(text):
        yield from ((*found.span(), "email") for found in _EMAIL.finditer(text))
    if digits > 3 or text.count(":") > 1:
        yield from numbers.find(text)
    if "@" in text or "#" in text or "u/" in text or "U/" in text:
        yield from ((*found.span(), "handle") for found in _HANDLE.finditer(text) if not _OFFICIAL.fullmatch(found[0]))
    if digits:
        yield from ((*span, "address") for span in addresses.find(text))
    if digits > 5:
        yield from ((*span, "phone") for span in numbers.phones(text))


def _links(text: str) -> Iterator[Found]:
    for address in _URL.finditer(text) if "/" in text or "www" in text.lower() else ():
        if not _SHARED.match(address[0]) and "[" not in address[0]:
            yield address.start(), address.start() + len(address[0].rstrip(".,;:!?)]'*_")), "url"
        for pattern in _IN_URL:
            for user in pattern.finditer(address[0]):
                yield address.start() + user.start(1), address.start() + user.end(1), "url"


# What every text with something of these kinds matches: cheap for the Rust engine, which sees every text.
_SHAPED = (
    r"@[\d.-]*[\pL_]|#\d{4}|(?i:://|www\.|\.(?:com|net|org|tv|me|io|app|social)/|[(\[{<]at[)\]}>]| dot )|[uU]/[\w-]{3}"
    rf"|[(\[{{](?:[dD][oO][tT]|\.)[)\]}}]| AT [a-z\d]|(?i:[ @]{_MAIL_HOST}\.)"
    r"|\d(?:[\s.()-]{0,3}\d){5}|\d\.\d{1,3}\.\d|:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]",
    r"\d[A-Za-z]?,? [A-Z\d].*(?:Str|St|R(?:oad|d|ow)|Ave|L(?:ane|n)|Dr|Bo?u?le?v|C(?:our|lo|r|ir|t)|W(?:ay|alk)"
    r"|Terr|Pl|Par|Gard|View|Sq|Trail|Mews|High)|Box \d|\d,? (?:bis |ter )?(?i:rue|avenue|boul|place|chem|imp|quai|all)"
    r"|\d[A-Z]{2}\b|[A-Z]\d[\dW] ?[A-Z\d]{4}|\d[A-Z]\d|\d[a-z]{2}\b|[A-Za-z]\.? \d.*,? \d\d|[a-z] \d{5}"
    r"|No:? ?\d|\d[a-z]?,.{0,12} \d{4}|(?:stra(?:ß|ss)e|str\.|weg|platz|allee|gasse) \d|(?:Calle|Avenida"
    r"|Plaza|Paseo) [A-Z]",
)

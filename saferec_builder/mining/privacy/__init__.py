"""Personal data out of a text, before anything else sees it: typed placeholders such as [email] and [name].

The search reads a plain spelling of the text (folding.py) and hides what it finds where it stands in the original.
Structured kinds (email, phone, ip, card, url: the user's part, handle, address) go by their shape, names by what people
write before a name of their own or of somebody in their life. Names of films, casts and characters stay. Recall and
precision per kind are measured on tests/data/privacy*.txt; docs/mining.md states them.
"""

import hashlib
import ipaddress
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import cache

import polars as pl

from saferec_builder.mining import rules_version as versions
from saferec_builder.mining.privacy import addresses, folding, in_passing, names, spoken
from saferec_builder.mining.privacy.folding import Folded, fold_all

KINDS = ("email", "phone", "ip", "card", "url", "handle", "address", "name")
_PASSING = "name in passing"  # a kind of its own until titles are told from names
_LIKE_TITLES = ("name", _PASSING, "address", "handle")
_REACHES = ("email", "phone", "card", "address")  # a text with one of these is a letter, not talk about casts
Spans = Iterable[tuple[int, int]]
Found = tuple[int, int, str]  # start, end, kind
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
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IP4 = re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.\d)")
_IP6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_VERSION = re.compile(r"(?:\bv|ver|version|release|build|player|firmware)[ .:]*$", re.I)
_CARD = re.compile(r"(?<![\w.-])[2-6](?:[ .-]?\d){12,18}(?![\d-])")
_FOURS = re.compile(r"[2-6]\d{3}([ .-]?)\d{4}\1\d{4}\1\d{4}|3[47]\d\d([ .-]?)\d{6}\2\d{5}")
_PAID = re.compile(
    r"(?i:\b(?:cards?|visa|master ?card|amex|american express|debit|credit|karte|tarjeta|carte|cart[aã]o"
    r"|carta|kart\w*)\b)[^\n\d]{0,30}$"
)
_GIFT = re.compile(r"\b(?:gift|library|sim|memory|score|report|trading|sd|part|model|serial)\b", re.I)
_IBAN = re.compile(r"(?<![\w-])(?:[A-Za-z]{2} ?\d{2})(?:[ .-]?[A-Za-z\d]){11,30}(?![\w-])")
_IBAN_SIZES = dict(pair.split("=") for pair in names.words()["iban"].split())  # land -> characters
_ACCOUNT = re.compile(
    r"(?i:\biban\b|\b(?:bank|account|konto\w*|cuenta|compte|conta|conto|hesa[bp]\w*|rekening\w*|acct?"
    r"|transfer|refund)\b)[^\n]{0,40}$"
)
_PHONE = re.compile(
    r"(?=[\d+(])(?<![\w.#$€£@,-])(?<!(?<!\d)/)(?<!(?<![^\W\d_]):)"
    r"(?:\+ ?|\()?(?:\d{3,5}/)?\d(?:[ .()-]{0,3}\d){5,16}(?![\w%:]|[.,]\d)"
)
_ASKED = re.compile(
    r"(?<!\[)\b"  # not the word in a placeholder
    r"(?:call|text|phone|tel|cell|mobile|whats ?app|number|sms|ring|dial|fax|signal|reach|contact|landline|handy)"
    r"\b[^\d\n]{0,25}$",
    re.I,
)
_US = re.compile(
    r"\+?(?:1(?: ?[-.] ?| )?)?(?:\([2-9]\d\d\) ?(?:[-.] ?)?|[2-9]\d\d(?: ?[-./] ?| ))\d{3}(?: ?[-.] ?| )\d{4}"
)
_GROUPED = re.compile(r"(?:00|0|\(0)\d{1,4}\)?(?:[ ./-]\d{2,8})+")
_CLOCK = re.compile(r"(?!\d\d(?P<mark>[ .-])\d\d(?:(?P=mark)\d\d)+$)\d\d(?:[ .-]\d\d)+")  # 09.30 11.45: marks differ
_COUNT = re.compile(
    r"\(?(?:(?:1[89]|20)\d\d[ .()-]*)+|(?:1[89]|20)\d\d-\d\d-\d\d.*|[1-9]\d{0,2}(?:[ .]\d{3})*[ .]000"
    r"|\d{1,4} ?\((?:1[89]|20)\d\d"  # The Number 23 (2007
)
_COUNTED = re.compile(
    r" ?(?:million|people|persons|viewers?|views|visitors|users|votes|ratings|reviews|copies|downloads|followers"
    r"|subscribers|subs|dollars|usd|bucks|euros?|pounds|yen|times|words|films|movies|games|years)\b",
    re.I,
)

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
    texts: pl.Series, talks: pl.Series | None = None, titles: Titles | None = None, leave: Container[str] = ()
) -> tuple[pl.Series, Counter[str]]:
    """`redact` over many texts; those in which nothing can be found are passed by at the speed of a search.

    `talks`: the conversation of each text. A name that is found in one of its texts is hidden in all of them.
    """
    counts: Counter[str] = Counter()
    known = defaultdict[object, set[str]](set)

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
    numbers = pl.Series([n for n, talk in enumerate(talks) for _ in talk])
    together = redact_all(pl.Series([text for talk in talks for text in talk]), numbers)[0].to_list()
    answers = [clean.to_list(), counts, beside, together, [redact(text, leave={"handle"})[0] for text in left]]
    lists = [*map(sorted, names.known()), *(sorted(map(str, part.items())) for part in in_passing.model())]
    known = [hashlib.blake2b(" ".join(some).encode()).hexdigest() for some in lists]  # too many for a look at each
    return versions.named(
        answers,
        globals(),
        vars(names),
        vars(spoken),
        vars(addresses),
        vars(in_passing),
        vars(folding),
        {"given": known},
    )


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
        yield from _numbers(text)
    if "@" in text or "#" in text or "u/" in text or "U/" in text:
        yield from ((*found.span(), "handle") for found in _HANDLE.finditer(text) if not _OFFICIAL.fullmatch(found[0]))
    if digits:
        yield from ((*span, "address") for span in addresses.find(text))
    for found in _PHONE.finditer(text) if digits > 5 else ():
        if _is_phone(text, *found.span()):
            yield (*found.span(), "phone")


def _links(text: str) -> Iterator[Found]:
    for address in _URL.finditer(text) if "/" in text or "www" in text.lower() else ():
        if not _SHARED.match(address[0]) and "[" not in address[0]:
            yield address.start(), address.start() + len(address[0].rstrip(".,;:!?)]'*_")), "url"
        for pattern in _IN_URL:
            for user in pattern.finditer(address[0]):
                yield address.start() + user.start(1), address.start() + user.end(1), "url"


def _numbers(text: str) -> Iterator[Found]:
    for found in _CARD.finditer(text):
        if _luhn(found[0]) or _is_called_card(text, found):
            yield (*found.span(), "card")
    for found in _IBAN.finditer(text):
        if size := _account(text, found.start(), found[0]):
            yield found.start(), found.start() + size, "card"
    for found in _IP4.finditer(text):
        if not _VERSION.search(text, max(0, found.start() - 20), found.start()):
            yield (*found.span(), "ip")
    for found in _IP6.finditer(text):
        if _is_ip6(found[0]):
            yield (*found.span(), "ip")


def _is_phone(text: str, start: int, end: int) -> bool:
    found = text[start:end]
    digits = re.sub(r"\D", "", found)
    if not 6 <= len(digits) <= 15 or _COUNT.fullmatch(found):
        return False
    if found.startswith("+"):
        return len(digits) >= 8
    if _US.fullmatch(found):
        return True
    if _GROUPED.fullmatch(found) and len(digits) >= 9 and not _CLOCK.fullmatch(found):
        return True
    return bool(_ASKED.search(text, max(0, start - 40), start)) and not _COUNTED.match(text, end)


def _luhn(found: str) -> bool:
    digits = [int(d) for d in found if d.isdigit()]
    doubled = [d if n % 2 == 0 else sum(divmod(2 * d, 10)) for n, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1


def _is_called_card(text: str, found: re.Match[str]) -> bool:
    """With a slip of the pen in it, a number of four groups is still one where it is called so."""
    before = _PAID.search(text, max(0, found.start() - 40), found.start())
    return bool(
        before and _FOURS.fullmatch(found[0]) and not _GIFT.search(text, max(0, before.start() - 20), found.start())
    )


def _account(text: str, start: int, found: str) -> int:
    """How long an account's number of this land is, or 0: the next word may look like its last group.

    By the check of ISO 13616; without it where it is written in fours, or is called an account's.
    """
    size = int(_IBAN_SIZES.get(found[:2].upper(), "0"))
    ends = [at for at, char in enumerate(found, 1) if char.isalnum()]
    if not size or len(ends) < size or found[ends[size - 1] :][:1].isalnum():
        return 0
    at = ends[size - 1]
    plain = re.sub("[ .-]", "", found[:at]).upper()
    if int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1:
        return at
    in_fours = re.fullmatch(r"[A-Z]{2}\d\d(?: [A-Z\d]{4})+(?: [A-Z\d]{1,3})?", found[:at])
    return at if in_fours or _ACCOUNT.search(text, max(0, start - 60), start) else 0


def _is_ip6(found: str) -> bool:
    if sum(map(bool, found.split(":"))) < 3:
        return False
    try:
        return bool(ipaddress.IPv6Address(found))
    except ValueError:
        return False


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

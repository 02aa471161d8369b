"""Personal numbers, by their form, check digits and the words before them: cards, accounts, IP addresses, phones."""

import ipaddress
import re
from collections.abc import Iterator

from saferec_builder.mining.privacy import names

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IP4 = re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.\d)")
_IP6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_VERSION = re.compile(r"(?:\bv|ver|version|release|build|player|firmware)[ .:]*$", re.I)
_CARD = re.compile(r"(?<![\w.-])[2-6](?:[ .-]?\d){12,18}(?![\d-])")
_FOURS = re.compile(r"[2-6]\d{3}([ .-]?)\d{4}\1\d{4}\1\d{4}|3[47]\d\d([ .-]?)\d{6}\2\d{5}")
_CARD_WORDS = re.compile(
    r"(?i:\b(?:cards?|visa|master ?card|amex|american express|debit|credit|karte|tarjeta|carte|cart[aã]o"
    r"|carta|kart\w*)\b)[^\n\d]{0,30}$"
)
_NO_CARD = re.compile(r"\b(?:gift|library|sim|memory|score|report|trading|sd|part|model|serial)\b", re.I)
_IBAN = re.compile(r"(?<![\w-])(?:[A-Za-z]{2} ?\d{2})(?:[ .-]?[A-Za-z\d]){11,30}(?![\w-])")
_IBAN_SIZES = dict(pair.split("=") for pair in names.words()["iban"].split())  # country -> characters
_ACCOUNT_WORDS = re.compile(
    r"(?i:\biban\b|\b(?:bank|account|konto\w*|cuenta|compte|conta|conto|hesa[bp]\w*|rekening\w*|acct?"
    r"|transfer|refund)\b)[^\n]{0,40}$"
)
_PHONE = re.compile(
    r"(?=[\d+(])(?<![\w.#$€£@,-])(?<!(?<!\d)/)(?<!(?<![^\W\d_]):)"
    r"(?:\+ ?|\()?(?:\d{3,5}/)?\d(?:[ .()-]{0,3}\d){5,16}(?![\w%:]|[.,]\d)"
)
_PHONE_WORDS = re.compile(
    r"(?<!\[)\b"  # not the word in a placeholder
    r"(?:call|text|phone|tel|cell|mobile|whats ?app|number|sms|ring|dial|fax|signal|reach|contact|landline|handy)"
    r"\b[^\d\n]{0,25}$",
    re.I,
)
_US_PHONE = re.compile(
    r"\+?(?:1(?: ?[-.] ?| )?)?(?:\([2-9]\d\d\) ?(?:[-.] ?)?|[2-9]\d\d(?: ?[-./] ?| ))\d{3}(?: ?[-.] ?| )\d{4}"
)
_GROUPED_PHONE = re.compile(r"(?:00|0|\(0)\d{1,4}\)?(?:[ ./-]\d{2,8})+")
_CLOCK = re.compile(r"(?!\d\d(?P<mark>[ .-])\d\d(?:(?P=mark)\d\d)+$)\d\d(?:[ .-]\d\d)+")  # 09.30 11.45: marks differ
_COUNT = re.compile(
    r"\(?(?:(?:1[89]|20)\d\d[ .()-]*)+|(?:1[89]|20)\d\d-\d\d-\d\d.*|[1-9]\d{0,2}(?:[ .]\d{3})*[ .]000"
    r"|\d{1,4} ?\((?:1[89]|20)\d\d"  # The Number 23 (2007
)
_COUNT_NOUNS = re.compile(
    r" ?(?:million|people|persons|viewers?|views|visitors|users|votes|ratings|reviews|copies|downloads|followers"
    r"|subscribers|subs|dollars|usd|bucks|euros?|pounds|yen|times|words|films|movies|games|years)\b",
    re.I,
)


def find(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of cards and accounts, and of IP addresses."""
    for match in _CARD.finditer(text):
        if _luhn(match[0]) or _is_called_card(text, match):
            yield (*match.span(), "card")
    for match in _IBAN.finditer(text):
        if size := _account(text, match.start(), match[0]):
            yield match.start(), match.start() + size, "card"
    for match in _IP4.finditer(text):
        if not _VERSION.search(text, max(0, match.start() - 20), match.start()):
            yield (*match.span(), "ip")
    for match in _IP6.finditer(text):
        if _is_ip6(match[0]):
            yield (*match.span(), "ip")


def phones(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each; a house number and a postcode are none if their address was found before."""
    for match in _PHONE.finditer(text):
        if _is_phone(text, *match.span()):
            yield match.span()


def _is_phone(text: str, start: int, end: int) -> bool:
    number = text[start:end]
    digits = re.sub(r"\D", "", number)
    if not 6 <= len(digits) <= 15 or _COUNT.fullmatch(number):
        return False
    if number.startswith("+"):
        return len(digits) >= 8
    if _US_PHONE.fullmatch(number):
        return True
    if _GROUPED_PHONE.fullmatch(number) and len(digits) >= 9 and not _CLOCK.fullmatch(number):
        return True
    return bool(_PHONE_WORDS.search(text, max(0, start - 40), start)) and not _COUNT_NOUNS.match(text, end)


def _luhn(number: str) -> bool:
    digits = [int(d) for d in number if d.isdigit()]
    doubled = [d if n % 2 == 0 else sum(divmod(2 * d, 10)) for n, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1


def _is_called_card(text: str, match: re.Match[str]) -> bool:
    """A number of four groups is a card even with a typing error, if it is called one."""
    before = _CARD_WORDS.search(text, max(0, match.start() - 40), match.start())
    return bool(
        before and _FOURS.fullmatch(match[0]) and not _NO_CARD.search(text, max(0, before.start() - 20), match.start())
    )


def _account(text: str, start: int, number: str) -> int:
    """The length of an account number of this country, or 0: the next word may look like its last group.

    By the check of ISO 13616; without it if it is written in groups of four, or is called an account.
    """
    size = int(_IBAN_SIZES.get(number[:2].upper(), "0"))
    ends = [end for end, char in enumerate(number, 1) if char.isalnum()]
    if not size or len(ends) < size or number[ends[size - 1] :][:1].isalnum():
        return 0
    end = ends[size - 1]
    plain = re.sub("[ .-]", "", number[:end]).upper()
    if int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1:
        return end
    in_fours = re.fullmatch(r"[A-Z]{2}\d\d(?: [A-Z\d]{4})+(?: [A-Z\d]{1,3})?", number[:end])
    return end if in_fours or _ACCOUNT_WORDS.search(text, max(0, start - 60), start) else 0


def _is_ip6(address: str) -> bool:
    if sum(map(bool, address.split(":"))) < 3:
        return False
    try:
        return bool(ipaddress.IPv6Address(address))
    except ValueError:
        return False

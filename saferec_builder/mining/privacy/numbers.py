"""Numbers that lead to somebody, by their shape, their check digits and the words before them: cards, accounts, IP
addresses and phones.
"""

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


def find(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of cards and accounts, and of IP addresses."""
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


def phones(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each; a house number and a postcode are none where their address was found before."""
    for found in _PHONE.finditer(text):
        if _is_phone(text, *found.span()):
            yield found.span()


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

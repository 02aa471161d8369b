"""Addresses by their form: a street with its number, with or without a town and its code."""

import re
from collections.abc import Iterator

_STREET = (
    r"\d{1,5}[A-Za-z]?,? (?:[NSEW]\.? |North |South |East |West )?(?:[A-Z][\w'’.]*,? |\d{1,3}(?:st|nd|rd|th) ){1,3}"
    r"(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Way|Close|Crescent|Terrace|Place|Pl"
    r"|Parade|Gardens|Gdns|View|Square|Sq|Circle|Cir|Trail|Parkway|Pkwy|Row|Walk|Mews|Highway|Hwy|Grove|Hill"
    r"|Rise|Park|Green|Quay|Wharf|Croft|Heights|Loop|Alley|Esplanade|Promenade|Yard|Cottages|Villas|Cres|Tce|Vale|Bank|Drove|Gate)\b\.?"
)
_TOWN = r"(?:,? [A-Z][\w'’.-]+(?: [A-Z][a-z'’-]+){0,2}(?: \d{1,2}\b)?)?"
_CODE = (
    r"(?:,? (?:[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d\d [A-Z0-9]{4}|(?:[A-Z]{2},? )?[A-Z]\d[A-Z] \d[A-Z]\d"
    r"|(?:[A-Z]{2,3}"
    r"|(?:New|North|South|West) [A-Z][a-z]+|[A-Z][a-z]{3,}),? \d{4,5}(?:-\d{4})?|\d{4,5} [A-Z]\w+))"
)
_POSTCODE = r"(?:[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[\dW] ?[A-Z\d]{4}|[A-Z]\d[A-Z] \d[A-Z]\d)\b"
_LANES = (  # words before the name of a street
    r"(?:rua|r\.|avenida|av|avda|travessa|praça|largo|estrada|calle|c/|plaza|paseo|carrer|camino|via|viale"
    r"|corso|piazza|vicolo"
    r"|largo|ulica|ul|aleja|al|plac|os|rue|boulevard|bd|chemin|impasse|quai|allée|place|strada|str|bulevardul"
    r"|calea|ulice|náměstí|ulitsa)"
)
_UNIT = r"(?:,? (?:Apt|Apartment|Unit|Suite|Ste|Flat|Room)\b\.? ?#?\w+|,? #\d+)"
_ADDRESS = re.compile(
    rf"(?P<flat>\b(?:Flat|Apt|Apartment|Unit)\.? ?\w{{1,10}}, )?{_STREET}(?P<unit>{_UNIT})?"
    rf"(?:{_TOWN}(?P<code>{_CODE}))?"
    rf"|(?P<box>P\.? ?O\.? ?Box \d+)(?:{_TOWN}{_CODE})?"
    r"|\b[A-ZÄÖÜ][\wäöüß]+(?:straße|strasse|str\.|weg|platz|allee|gasse) \d{1,4}[a-z]?"
    r"(?P<de>(?:, [^\n,]{1,16})?,? (?:[A-Z]{1,2}-)?\d{4,5} [A-ZÄÖÜ]\w+)?"
    r"|(?P<fr>\d{1,4},? (?:bis |ter )?(?:[Rr]ue|[Aa]venue|[Bb]oulevard|[Pp]lace|[Cc]hemin|[Ii]mpasse|[Qq]uai"
    r"|[Aa]llée) [^\n,.;]{3,40}, \d{5} [A-ZÉ][\w-]+)"
    r"|(?P<eu>\b(?:[A-ZÀ-Þ][\w'’.-]*,? |(?:d[aeo]s?|del?|van|von|der|den|am|im) ){1,5}\d{1,4}[a-z]?"
    r"(?:, [^\n,]{1,9})?,? (?!(?:1[89]|20)\d\d )\d{4,5}(?:-\d{3}| [A-Z]{2})? [A-ZÀ-Þ][\w-]+)"
    r"|(?P<es>(?:Calle|Avenida|Plaza|Paseo) [A-Z][^\n,.;]{1,30} \d{1,4}, \d{5} [A-Z]\w+)"
)
_POSTAL = re.compile(
    rf"{_POSTCODE}|\b\d{{5}}\b|\d[ -]\d{{2,3}}|[a-z]{{1,2}}\d{{1,2}} ?\d[a-z]{{2}}\b|[ (](?!1[89]|20)\d{{4}}\b|No:? ?\d"
)
_WITH_CODE = re.compile(
    rf"(?P<code>(?<![\w'’-])(?:\d{{1,4}}[A-Za-z]?|Flat|Unit|Apt\.?|Apartment|Suite|Room|The"
    r"|[A-Z][\w'’.-]* (?:[A-Z][\w'’.-]* )?(?:House|Cottage|Farm|Lodge|Court|Hall|Villa|Barn|Mill|Lane|Road"
    r"|Street|Close|Park)),? "
    rf"(?:(?:\d{{1,4}}[A-Za-z]?|[A-Z][\w'’.-]*|[Tt]he|of|on|upon|in|{_LANES}),? ){{1,9}}{_POSTCODE})"
    rf"|(?P<lane>(?<![\w'’-])(?i:{_LANES})\.? (?:[^\W_][\w'’.-]* ){{0,4}}[^\W_][\w'’.-]*,? (?i:n[º°o.]{{0,2}} "
    rf"?)?\d{{1,4}}[a-zA-Z]?(?:[/-]\d{{1,4}})?"
    r"(?:, [^\n,]{1,16}){0,2},? (?!(?:1[89]|20)\d\d )(?:[A-Z]{1,2}-)?\d{2,5}(?:[ -]\d{2,4})? [A-ZÀ-Þ][\w-]+)"
    rf"|(?P<cad>\b[A-ZÀ-ÞİŞ][\w'’]*(?: [A-ZÀ-ÞİŞ][\w'’]*){{0,3}} (?:Mah\.?|Mahallesi|Cad\.?|Caddesi|Sok\.?"
    rf"|Sokak|Sokağı)[^\n]{{0,40}}? No:? ?\d{{1,4}}(?:[^\n,]{{0,12}},? ?\d{{5}})?(?:,? [A-ZİŞ][\w/]+)?)"
    rf"|(?P<low>(?<![\w'’-])(?:(?:flat|apt|unit) ?\w{{1,4}},? )?\d{{1,5}}[a-z]? (?:[a-z'’]+ ){{1,3}}(?:street"
    rf"|st|road|rd|avenue|ave|lane|ln|drive|dr|close|crescent|terrace|boulevard|blvd)\b"
    r"(?:,? [a-z'’]+){0,3},? (?:[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}|[a-z]{2} \d{5})\b)"
    r"|\b[A-ZÅÄÖØÆ][\wåäöøæé]+(?:gatan|vägen|gata|gate|veien|vegen|vej|gade|straat|laan|gracht|plein|kade"
    r"|katu|tie|steeg|dreef|singel|damm|ufer|ring|steig|hof|wall|chaussee) \d{1,4}[a-z]?"
    r"(?P<nord>(?:,? [^\n,]{1,16}){0,2},? \d{3,4} ?(?:\d{2}|[A-Z]{2})? [A-ZÅÄÖØÆ]\w+)"
)
_LIVES = re.compile(
    r"(?<!\[)\b"
    r"(?:lives?|living|address|ship\w*|send|deliver\w*|mail|post|house|home|my place|our place|moved|stay\w*|visit"
    r"|come to|come over to|return|we are at|i'm at|i am at)\b[^\n]{0,25}$",
    re.I,
)


def find(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each; a certain one precedes those that it overlaps."""
    for match in _WITH_CODE.finditer(text) if _POSTAL.search(text) else ():
        yield match.span()
    for match in _ADDRESS.finditer(text):
        if any(match.groupdict().values()) or _LIVES.search(text, max(0, match.start() - 50), match.start()):
            yield match.span()

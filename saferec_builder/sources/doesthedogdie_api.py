"""Asks DoesTheDogDie's API with the user's key: one item at a time, slowly; retries only where the site was busy."""

import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from saferec_builder.core import addresses, titles
from saferec_builder.core.errors import KeyTwice, SourceError, UsageError, strict_json
from saferec_builder.sources import Row
from saferec_builder.sources.doesthedogdie import KINDS, SITE

KEY = "DDD_API_KEY"
TRIES = 5
MOST = 16 * 2**20  # bytes of an answer


@dataclass
class Site:
    """The address to ask, the key, and the pause between two requests."""

    key: str = field(repr=False)
    base: str = SITE
    pause: float = 1.0
    sleep: Callable[[float], None] = time.sleep
    asked: int = 0

    def __post_init__(self) -> None:
        if "@" in (urllib.parse.urlsplit(self.base).netloc if addresses.host(self.base) else self.base):
            raise UsageError("--base holds a user or password: the key alone says who you are")
        if not addresses.host(self.base):
            raise UsageError(f"--base {self.base} is no address: expected such as {SITE}")
        if not self.base.lower().startswith("https:") and not addresses.is_loopback(self.base):
            raise UsageError(f"{self.base}: a key goes to an https address only")


def named(name: str, base: str | None = None, pause: float = 1.0) -> Site:
    """Returns the site of this name with the key in DDD_API_KEY; raises UsageError where there is none, or no key."""
    if name != "ddd":  # a key, perhaps: it is not shown
        raise UsageError('fetch: no such site: expected "ddd" (DoesTheDogDie), with your key in the variable ' + KEY)
    if not os.environ.get(KEY):
        raise UsageError(f"{KEY} is not set: your key stands in your profile on {SITE}")
    return Site(os.environ[KEY], base or SITE, pause)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send the key to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class Asked(TypedDict):
    """An item to ask for; title and year are used where the site does not have its IMDb id."""

    item: str
    title: str
    year: int | None
    domain: str
    refs: list[str]


# (title, year, domain) of an answer -> whether it is the item that was asked for
Agrees = Callable[[str, int | None, str], bool]


def media(site: Site, item: Asked, agrees: Agrees = lambda *_: True) -> Row | None:
    """The answer of /media/ID for an item, or None where the site has no such item.

    `agrees` checks the item that the site has under the IMDb id: an id may be wrong, and then the title is searched.
    `exact` is False in the answer where title and year may mean another work (titles.Match).
    """
    imdb = next((ref.removeprefix("imdb:") for ref in item["refs"] if ref.startswith("imdb:")), None)
    by_id = [hit for hit in _search(site, {"imdb": imdb}) if hit.get("imdbId") in (imdb, None)] if imdb else []
    if len(by_id) == 1 and agrees(*_facts(by_id[0])[1:]):  # an answer with another id is another film
        match = titles.Match("found", _facts(by_id[0])[0])
    else:
        hits = _search(site, {"q": item["title"]})
        if imdb and len(by_id) != 1:  # what the site has under another IMDb id is another item
            hits = [hit for hit in hits if hit.get("imdbId") in (imdb, None, "")]
        rows = [(*_facts(hit), ()) for hit in hits]
        match = titles.find(titles.index(rows), item["title"], item["year"], item["domain"])
    if match.item is None:
        return None
    answer = _get(site, f"/media/{match.item}")
    if not isinstance(answer, dict) or not isinstance(answer.get("topicItemStats"), list):
        raise SourceError(f"{site.base}/media/{match.item}: no topicItemStats in the answer: has the API changed?")
    return answer | {"exact": match.exact}


def _facts(hit: Row) -> tuple[str, str, int | None, str]:
    """Returns number, title, year and domain of an item of the site."""
    written_year, type_ = str(hit.get("releaseYear") or ""), hit.get("itemType")
    kind = KINDS.get(str(type_.get("name", "Movie") if isinstance(type_, dict) else "Movie").casefold(), "")
    year = int(written_year) if re.fullmatch("[0-9]{4}", written_year) else None
    return str(hit["id"]), str(hit.get("name", "")), year, kind


def _search(site: Site, query: Mapping[str, str]) -> list[Row]:
    answer = _get(site, f"/dddsearch?{urllib.parse.urlencode(query)}")
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise SourceError(f"{site.base}/dddsearch: no items in the answer: has the API changed?")
    return [item for item in items if isinstance(item, dict) and re.fullmatch("[0-9]{1,12}", str(item.get("id")))]


def _get(site: Site, path: str) -> object:
    headers = {"Accept": "application/json", "X-API-KEY": site.key, "User-Agent": "saferec-builder"}
    failure = "nothing"
    for attempt in range(TRIES):
        site.sleep(site.pause if site.asked else 0)
        site.asked += 1
        wait: float = 2**attempt
        try:
            with _OPENER.open(urllib.request.Request(site.base + path, headers=headers), timeout=30) as answer:
                return strict_json(answer.read(MOST))
        except urllib.error.HTTPError as fault:
            fault.close()  # it holds the connection
            failure = f"HTTP {fault.code}"
            if fault.code in (401, 403):
                raise UsageError(f"{site.base} refused the key ({failure}): see your profile on the site") from None
            if fault.code != 429 and fault.code < 500:
                raise SourceError(f"{site.base}{path.split('?')[0]}: {failure}: has the API changed?") from None
            after = fault.headers.get("Retry-After", "")
            wait = float(min(int(after), 300)) if re.fullmatch("[0-9]{1,9}", after) else wait
        except KeyTwice as fault:  # the next answer would be the same
            raise SourceError(f"{site.base}{path.split('?')[0]}: {fault}: has the API changed?") from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as fault:
            failure = type(fault).__name__
        if attempt < TRIES - 1:
            site.sleep(wait)
    raise SourceError(f"{site.base} answers {failure} after {TRIES} tries: run it again later; what came is kept")

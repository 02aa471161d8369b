"""Turns failures of a review server into a few errors of ours, whichever library raised them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from saferec_builder.core.errors import KeyTwice, ReviewError


class Unsure(ReviewError):
    """The server may or may not have done it: a timeout, a broken connection, a 5xx. Look before sending again."""


class Broken(Unsure):
    """The server answered that it failed: whatever it was doing is over."""


class Missing(ReviewError):
    """404: what the ledger remembers is not there any more."""


class Elsewhere(ReviewError):
    """The server sends us on to somebody else, who gets nothing of ours."""


def stays(response: Any) -> None:
    """A hook of httpx, which calls it before it follows a redirect: one to another origin ends the command there.

    Whoever follows it carries the texts along, and often the token; within the origin it is the server's own affair.
    """
    if not response.has_redirect_location:
        return
    here, location = response.request.url, response.headers["location"]
    try:
        there = here.join(location)
    except Exception:  # what is no address raises what each httpx likes
        raise Elsewhere(f"it sends us on to {location[:100]!r}, which is no address: nothing was sent there") from None
    if _origin(there) != _origin(here):
        raise Elsewhere(
            f"it sends us on to {'{}://{}:{}'.format(*_origin(there))}{there.path[:100]}: no token and no text was sent"
            " there: if that is your review server, give its own address with --url"
        )


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


@contextmanager
def explained(url: str, doing: str, *refusals: type[Exception], hide: str = "") -> Iterator[None]:
    """What httpx and a library's own errors (`refusals`, with a status_code) mean to a person and to the ledger.

    hide: the token, should the server repeat it.
    """

    import httpx

    where = f"{url}: {doing}"
    try:
        yield
    except Elsewhere as fault:
        raise Elsewhere(f"{where}: {_without(hide, str(fault))}") from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise ReviewError(f"--url {url}: this is no address: expected one like https://labels.example.org") from None
    except httpx.ConnectError:
        own = "`saferec-build review up` starts the workspace's own Label Studio"
        raise ReviewError(f"{url} does not answer: check --url, and whether it runs ({own})") from None
    except httpx.HTTPStatusError as fault:
        raise _of_status(fault.response.status_code, _without(hide, fault.response.text), where) from None
    except httpx.HTTPError as fault:
        raise Unsure(f"{where}: {type(fault).__name__}: run the command again") from None
    except refusals as fault:
        body = _without(hide, str(getattr(fault, "body", fault)))
        raise _of_status(getattr(fault, "status_code", None), body, where) from None
    except KeyTwice as fault:
        raise ReviewError(f"{where}: {fault}: is this address really the review server?") from None
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        what = f"{fault.title}, {'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
        raise ReviewError(f"{where}: not understood ({what}): is this address really the review server?") from None
    except (ValueError, RecursionError):  # of a JSON reader: a number of too many digits, too many brackets
        raise ReviewError(f"{where}: no JSON came back: is this address really the review server?") from None
    except (TypeError, AttributeError, LookupError):  # of a library, where a reply has another shape than it thinks
        raise ReviewError(
            f"{where}: the answer was not understood: is this address really the review server?"
        ) from None


def _without(hide: str, text: str) -> str:
    return text.replace(hide, "***") if hide else text


def _of_status(status: int | None, body: str, where: str) -> ReviewError:
    if status is None or 200 <= status < 300:
        return ReviewError(f"{where}: the answer was not understood: is this address really the review server?")
    if status >= 500 or status in (408, 429):
        return Broken(f"{where}: {status}: run the command again")
    if status == 404:
        return Missing(f"{where}: 404: it is not there (any more)")
    if status in (401, 403):
        return ReviewError(f"{where}: {status}: the token was refused: give a valid one with --token")
    return ReviewError(f"{where}: {status}: {body[:300]}")

"""Turns the failures of a review server into a few errors of our own, whichever library raised them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from saferec_builder.core.errors import KeyTwice, ReviewError

_IS_IT = "is this address really the review server?"
_UNCLEAR = f"the answer was not understood: {_IS_IT}"


class Unsure(ReviewError):
    """The server may have done what was asked: a timeout, a broken connection, a 5xx. Check before sending again."""


class Broken(Unsure):
    """The server answered that it failed: it no longer works on the request."""


class Missing(ReviewError):
    """404: something that the ledger lists no longer exists."""


class Elsewhere(ReviewError):
    """The server redirects to another origin, to which nothing is sent."""


def needed(library: str, tool: str) -> None:
    """Raises ReviewError if the tool's library is not installed."""
    try:
        with warnings.catch_warnings():  # that of Argilla is written for an older pydantic
            warnings.simplefilter("ignore", DeprecationWarning)
            import_module(library)
    except ModuleNotFoundError:
        raise ReviewError(f"--tool {tool} needs its library: pip install 'saferec-builder[{tool}]'") from None


def refuse_foreign_redirect(response: Any) -> None:
    """A hook that httpx calls before it follows a redirect; raises Elsewhere for one to another origin.

    A followed redirect sends the texts along, and often the token; redirects within the origin are harmless.
    """
    if not response.has_redirect_location:
        return
    source, location = response.request.url, response.headers["location"]
    try:
        dest = source.join(location)
    except Exception:  # each httpx raises another error for an invalid address
        raise Elsewhere(f"it sends us on to {location[:100]!r}, which is no address: nothing was sent there") from None
    if _origin(dest) != _origin(source):
        raise Elsewhere(
            f"it sends us on to {'{}://{}:{}'.format(*_origin(dest))}{dest.path[:100]}: no token and no text was sent"
            " there: if that is your review server, give its own address with --url"
        )


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


@contextmanager
def translated_errors(
    url: str, doing: str, *refusals: type[Exception], hide: str = "", start: str = ""
) -> Iterator[None]:
    """Turns the errors of httpx and of a library (`refusals`, with a status_code) into ours, with a line for people.

    hide: the token, in case the server repeats it. start: what starts such a server.
    """

    import httpx

    where = f"{url}: {doing}"
    try:
        yield
    except Elsewhere as fault:
        raise Elsewhere(f"{where}: {_masked(hide, str(fault))}") from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise ReviewError(f"--url {url}: this is no address: expected one like https://labels.example.org") from None
    except httpx.ConnectError:
        hint = f" ({start})" if start else ""
        raise ReviewError(f"{url} does not answer: check --url, and whether it runs{hint}") from None
    except httpx.HTTPStatusError as fault:
        raise _error_of(fault.response.status_code, _masked(hide, fault.response.text), where) from None
    except httpx.HTTPError as fault:
        raise Unsure(f"{where}: {type(fault).__name__}: run the command again") from None
    except refusals as fault:
        body = _masked(hide, str(getattr(fault, "body", fault)))
        raise _error_of(getattr(fault, "status_code", None), body, where) from None
    except KeyTwice as fault:
        raise ReviewError(f"{where}: {fault}: {_IS_IT}") from None
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        problem = f"{fault.title}, {'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
        raise ReviewError(f"{where}: not understood ({problem}): {_IS_IT}") from None
    except (ValueError, RecursionError):  # from a JSON reader: too many digits or brackets
        raise ReviewError(f"{where}: no JSON came back: {_IS_IT}") from None
    except (TypeError, AttributeError, LookupError):  # from a library, if a reply has an unexpected shape
        raise ReviewError(f"{where}: {_UNCLEAR}") from None


def _masked(hide: str, text: str) -> str:
    return text.replace(hide, "***") if hide else text


def _error_of(status: int | None, body: str, where: str) -> ReviewError:
    if status is None or 200 <= status < 300:
        return ReviewError(f"{where}: {_UNCLEAR}")
    if status >= 500 or status in (408, 429):
        return Broken(f"{where}: {status}: run the command again")
    if status == 404:
        return Missing(f"{where}: 404: it is not there (any more)")
    if status in (401, 403):
        return ReviewError(f"{where}: {status}: the token was refused: give a valid one with --token")
    return ReviewError(f"{where}: {status}: {body[:300]}")

"""The host of a server's address, and whether it is this machine."""

import ipaddress
from urllib.parse import urlsplit


def host(url: str) -> str | None:
    """The host of an address that begins with http:// or https://; None if it is no such address."""
    try:
        parts = urlsplit(url)
        return parts.hostname or None if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:  # an open bracket, or an invalid port
        return None


def is_loopback(url: str) -> bool:
    """Whether nothing that is sent leaves this machine; a name that only looks local does not count. 0.0.0.0 does: many
    servers print it as their address."""
    try:
        address = None if host(url) == "localhost" else ipaddress.ip_address(host(url) or "")
        return address is None or address.is_loopback or address.is_unspecified
    except ValueError:
        return False

"""Which addresses are this machine."""

import pytest

from saferec_builder.core.addresses import host, is_loopback

HERE = ("localhost:8000/v1", "127.0.0.1/v1", "127.9.9.9:1/v1", "[::1]:8000/v1", "0.0.0.0:8000/v1")
ELSEWHERE = (
    *("api.openai.com/v1", "127.0.0.1.example.org/v1", "localhost.example.org/v1", "127.0.0.1@example.org/v1"),
    *("example.org/127.0.0.1", "example.org#@127.0.0.1/", "192.168.0.4:8000/v1"),
)


@pytest.mark.parametrize("address", [*HERE, *ELSEWHERE])
def test_only_loopback_is_this_machine(address: str) -> None:
    assert is_loopback(f"http://{address}") is (address in HERE)
    assert not is_loopback(f"ftp://{address}")


def test_an_address_without_a_host_or_port_is_none() -> None:
    assert [host(url) for url in ("https://Example.org:1/x", "http://example.org")] == ["example.org"] * 2
    assert [host(url) for url in ("not a url", "http://", "http://[", "http://a:x", "http://a:0")] == [None] * 5

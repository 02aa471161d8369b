"""Real Chromium; tests that need it are skipped on a machine without it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import ROOT

SCREENS = ROOT / "build" / "screens"
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


def program() -> str:
    paths = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, paths), None) or pytest.skip("part not run: chromium (install: apt-get install chromium)")


def serious(tab: Any) -> list[str]:
    """The serious and critical violations that axe-core reports for the page in a tab."""
    from axe_playwright_python.sync_playwright import Axe

    violations = [hit for hit in Axe().run(tab).response["violations"] if hit["impact"] in ("serious", "critical")]
    return [f"{hit['id']}: {hit['nodes'][0]['html'][:200]}" for hit in violations]


@contextmanager
def browser(*words: str) -> Iterator[Any]:
    """A browser driven by playwright, with these words on its command line."""
    path = program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        instance = player.chromium.launch(executable_path=path, args=["--no-sandbox", *words])
        yield instance
        instance.close()

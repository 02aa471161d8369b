"""Real Chromium, where the machine has it; a test that asks for it elsewhere is skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import ROOT

SCREENS = ROOT / "build" / "screens"
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


def program() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None) or pytest.skip(
        "part not run: chromium (install: apt-get install chromium)"
    )


def serious(tab: Any) -> list[str]:
    """What axe-core finds serious on the page that a tab shows."""
    from axe_playwright_python.sync_playwright import Axe

    found = [each for each in Axe().run(tab).response["violations"] if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


@contextmanager
def browser(*words: str) -> Iterator[Any]:
    """As playwright drives it, with these words on its command line."""
    path = program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        found = player.chromium.launch(executable_path=path, args=["--no-sandbox", *words])
        yield found
        found.close()

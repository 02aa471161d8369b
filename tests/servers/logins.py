"""Logs in to the real review servers as a person does, in a browser."""

from typing import Any

from annotation.tools import local_label_studio as managed
from tests.worlds import review_world


def log_in(page: Any, studio: review_world.LabelStudio, name: str) -> None:
    account = (managed.state(studio.home) or {})["accounts"][name]
    page.goto(studio.facts["url"] + "/user/login/")
    page.fill("input[name=email]", account["email"])
    page.fill("input[name=password]", account["password"])
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "login" not in url)


def argilla_log_in(page: Any, url: str, name: str = "ann") -> None:
    page.goto(f"{url}/sign-in")
    page.fill("input[type=text]", name)
    page.fill("input[type=password]", "password-1234")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "sign-in" not in url)

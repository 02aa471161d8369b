"""Payloads that try to run in a page, and a script that counts those that do."""

from tests import DATA

PAYLOADS = (DATA / "xss.txt").read_text(encoding="utf-8").splitlines()

LISTEN = """window.hits = 0; window.pwned = () => { (window.top || window).hits += 1 };
for (const name of ["alert", "confirm", "prompt"]) window[name] = window.pwned;"""

"""Renders the dataset card and the change log from the manifest alone.

Names come from files that others wrote. Every value that the template prints is escaped for Markdown, unless a filter
made it safe in another way.
"""

import json
import re
from functools import cache
from pathlib import Path

import jinja2

from exports import build_rows, canary
from exports.manifest_types import OLDER, Facts
from saferec_builder.core.counts import many

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&:@-])")


class _Safe(str):
    """Text that is already valid Markdown or YAML."""


def render(manifest: Facts) -> str:
    """Returns the card of a release, from its manifest (`files` is not needed)."""
    manifest = {**OLDER, **manifest}
    rows = sum(manifest["counts"]["conversations"].values())
    return _template().render(
        m=manifest,
        size=next((name for limit, name in SIZES if rows < limit), "1M<n<10M"),
        canary=_Safe(canary.sentence(_file(manifest["canary"] or ""))),
        stays=build_rows.apart(manifest["dropped"])[1],
        percent=percent,  # escaped like any text, as a line that begins with > is a quote
        share=lambda part, whole: percent(part / whole if whole else 0.0),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: escape(value) if isinstance(value, str) and not isinstance(value, _Safe) else value,
    )
    environment.globals["many"] = many
    environment.filters |= {"yaml": yaml, "slug": _slug, "file": _file, "safe": _Safe, "bound": bound}
    return environment.from_string(Path(__file__).with_name("card.md").read_text(encoding="utf-8"))


def percent(share: float) -> str:
    """Returns 12%, and 0% or 100% only if it is exactly none or all: even a little unknown is not safe."""
    text = f"{share:.0%}"
    return "<1%" if text == "0%" and share > 0 else ">99%" if text == "100%" and share < 1 else text


def bound(words: str) -> str:
    """Returns the words of a bound in the style of the card. An interval within what rounding adds is left out: where
    everything was read, there is none."""
    words = words.replace(" %", "%").replace("<= ", "at most ")
    interval = re.fullmatch(r"([\d.]+%) \(([\d.]+) to ([\d.]+)%\)", words)
    return interval[1] if interval and float(interval[3]) - float(interval[2]) < 0.15 else words


def escape(text: str) -> str:
    """Returns one line of plain text that no Markdown reader takes for markup, a link or HTML."""
    safe = _SPECIAL.sub(r"\\\1", _printable(text)).replace("\\<", "&lt;").replace("\\&", "&amp;")
    return _Safe(re.sub(r"(?i)(www)\.", r"\1\.", safe))  # some readers turn it into a link


def yaml(text: str) -> str:
    """Returns a double-quoted YAML scalar."""
    return _Safe(json.dumps(_printable(text), ensure_ascii=False))


def _slug(text: str) -> str:
    return _Safe(re.sub(r"[^\w]", "", text))


def _file(name: str) -> str:
    return _Safe(re.sub(r"[^\w.-]", "", name))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def bannered(card: str, version: str, reason: str, *, bare: bool) -> str:
    """Returns the card with the mark below its header; with `bare` nothing else, as the data is deleted."""
    banner = f"**{version} was withdrawn: {escape(reason)}. Do not use it.**\n"
    card = card.replace("\r\n", "\n")  # as some editors save it
    head, separator, body = card.removeprefix("---\n").partition("\n---\n")
    if bare or not (separator and card.startswith("---\n")):
        head, body = "tags: [withdrawn]", "" if bare else card
    remaining = "\n".join(line for line in body.split("\n") if not line.startswith(f"**{version} was withdrawn"))
    return f"---\n{head}\n---\n{banner}\n{remaining.lstrip()}"


def changelog(manifest: Facts, before: Facts | None, older: str) -> str:
    """Returns this version's section above those of the previous release (`older` is its CHANGELOG.md)."""
    lines = [f"## {manifest['version']}", ""]
    for config, splits in manifest["counts"].items():
        rows = sum(splits.values())
        old_rows = sum(before["counts"].get(config, {}).values()) if before else None
        lines.append(f"- {config}: {rows:,} rows" + (f" ({rows - old_rows:+,})" if old_rows is not None else ""))
    lines += [f"- {change}" for change in manifest["changes"]]
    head, _, rest = older.partition("\n\n")
    return "# Changes\n\n" + "\n".join(lines) + "\n" + (f"\n{rest}" if head == "# Changes" else "")

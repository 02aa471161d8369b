"""What `--proposer` names: `rules`, `learned`, `openai:NAME`, `batch:NAME`, several of them, or the configured jury."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from urllib.parse import urlsplit

import polars as pl

from saferec_builder import llm
from saferec_builder.core import addresses
from saferec_builder.core.counts import many
from saferec_builder.core.errors import UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing import known_ways
from saferec_builder.storage import config
from saferec_builder.storage.workspace import Workspace

WAYS = ("rules", "learned", "openai", "batch")
Find = Callable[[pl.DataFrame, Taxonomy], pl.DataFrame]  # conversations or items, traits -> tables.PROPOSALS


@dataclass(frozen=True)
class Step:
    """One proposer: how it is reached, its server (None: it runs in this process), and its price."""

    way: str
    server: llm.Server | None = None
    price: llm.Price | None = None
    named: str = ""  # its section of saferec.toml, [propose.models.NAMED]
    hint: str = ""  # names a similar section, where saferec.toml has none of that name
    key_env: str = ""  # the environment variable with its key
    version: str = ""  # of `learned`: depends on what it learned from
    find: Find | None = None  # of `learned`: the function that reads
    retries_failed: bool = False  # asks again where a paid answer was unusable

    @property
    def name(self) -> str:
        """The name in proposals: the model's own, whatever way it was asked."""
        return self.server.model if self.server else self.way


def steps(ws: Workspace, named: str, model: str | None, base_url: str | None) -> tuple[list[Step], bool]:
    """The proposers of `--proposer`, and whether they are a cascade: each reads what earlier ones left in doubt."""
    if (jury := named == "jury") and not ws.config.propose.jury:
        raise UsageError('--proposer jury: name its members: [propose] jury = ["openai:small", ...] in saferec.toml')
    words = ws.config.propose.jury if jury else [word.strip() for word in named.split(",")]
    if (model or base_url) and (jury or len(words) > 1 or words[0] in ("rules", "learned")):
        raise UsageError(
            "--model and --base-url are for one model: say --proposer openai, or name models as in rules,openai:small"
        )
    chosen = [proposer(ws, word, model, base_url) for word in words]
    chosen = [replace(s, server=known_ways.with_known_way(ws, s.server)) if s.server else s for s in chosen]
    names = [step.name for step in chosen]
    if repeat := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--proposer {named}: {repeat} stands twice: what is read is kept under the model's own name")
    return chosen, not jury and len(chosen) > 1


def retrying(step: Step) -> Step:
    """The step, set to ask again where an answer was unusable, and to find the best way of asking again."""
    server = replace(step.server, way=llm.Server.way, refuses=()) if step.server else None
    return replace(step, server=server, retries_failed=True)


def proposer(ws: Workspace, word: str, model: str | None, base_url: str | None) -> Step:
    """The proposer that one word of `--proposer` names, by saferec.toml alone: reads no table."""
    way, _, name = word.partition(":")
    if way not in WAYS:
        suggestion = f"did you mean openai:{word}? expected one of {', '.join(WAYS)}"
        hint = suggestion if word in ws.config.propose.models else near(way, WAYS)
        raise UsageError(f"--proposer {word}: {hint}, several with commas, or jury")
    if way in ("rules", "learned"):
        return Step(way)
    if name and model and name != model:
        raise UsageError(f"--proposer {word} and --model {model} name two models: leave one of them out")
    name = name or model or ws.config.propose.model or ""
    if not name:
        raise UsageError(f"--proposer {way}: which model? give --model or [propose] model in saferec.toml")
    return _model(ws, way, name, base_url)


def _model(ws: Workspace, way: str, name: str, base_url: str | None) -> Step:
    """A model, by its name in saferec.toml or by its server's name for it."""
    options = ws.config.propose
    model = options.models.get(name) or config.Model()
    urls = (base_url, model.base_url, options.base_url, llm.OPENAI)  # an empty one does not mean OpenAI
    url = next(candidate for candidate in urls if candidate is not None)
    if not addresses.host(url):
        visible = url.rpartition("@")[2]  # without the password
        expected = "expected one like https://host/v1 or http://127.0.0.1:8000/v1"
        raise UsageError(f"model {name}: base_url {visible!r}: no address: {expected}")
    if "@" in urlsplit(url).netloc:
        raise UsageError(f"model {name}: base_url holds a user or password: put the key into ${model.key_env} instead")
    key = os.environ.get(model.key_env, "").strip() or "unused"  # a file's last line break is in no header
    limits = (options.concurrency, options.timeout, options.retries)
    headers, secrets = _headers(name, model)
    server = llm.Server(model.model or name, url, key, *limits, _sampling(options, model), headers, secrets)
    price = None
    if model.input is not None and model.output is not None:
        price = llm.Price(model.input, model.output, model.cached_input)
        price = price.times(options.batch_factor) if way == "batch" else price
    if server.key == "unused" and not server.is_loopback:
        server = replace(server, key="")  # `consent` says which variable is missing
    close = get_close_matches(name, [] if name in options.models else options.models, 1)
    hint = f" (there is no {section(name)}: did you mean {way}:{close[0]}?)" if close else ""
    return Step(way, server, price, name, hint, model.key_env)


def section(name: str) -> str:
    """The section of saferec.toml for a model; TOML wants quotes around a name such as gpt-4.1."""
    return f"[propose.models.{name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else json.dumps(name)}]"


def _sampling(options: config.Proposer, model: config.Model) -> llm.Sampling:
    """The settings of each request. They are part of its name, so that a changed setting asks again."""
    limit = model.max_completion_tokens or (None if model.max_tokens else options.max_tokens)
    settings: dict[str, JsonValue] = {"temperature": model.temperature, "max_completion_tokens": limit}
    settings |= {"max_tokens": model.max_tokens, "reasoning_effort": model.reasoning_effort}
    return tuple((name, value) for name, value in (settings | model.extra_body).items() if value is not None)


def _headers(name: str, model: config.Model) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Returns (headers, those of their values that come from the environment)."""
    headers, secrets = [], []
    for header, value in model.headers.items():
        if value.startswith("$"):
            if not (secret := os.environ.get(value[1:], "").strip()):
                raise UsageError(f"{section(name)} headers: {header}: set the environment variable {value[1:]}")
            secrets.append(secret)
            value = secret
        headers.append((header, value))
    return tuple(headers), tuple(secrets)


def check_prices(chosen: list[Step], budget: float | None) -> None:
    """Raises UsageError if there is a budget and a model has no price."""
    unpriced = [step for step in chosen if step.server and not step.price]
    if unpriced and budget is not None:
        step = unpriced[0]
        slip = f"--proposer {step.way}:{step.named}{step.hint}: " if step.hint else ""
        raise UsageError(
            f"{slip}a budget needs prices: {section(step.named)} input and output in saferec.toml"
            " (USD per million tokens)"
        )


def consent(chosen: list[Step], allowed: bool, rows: int, noun: str, fields: str) -> None:
    """Raises UsageError if texts would go to a remote host without permission, or a remote host has no key."""
    remote = [(step, step.server) for step in chosen if step.server and not step.server.is_loopback]
    if not remote or not rows:
        return
    hosts = ", ".join(dict.fromkeys(server.host + step.hint for step, server in remote))
    if not allowed:
        raise UsageError(
            f"{hosts} is not this machine: {many(rows, noun[:-1], noun)} ({fields}) would be sent to it; "
            "allow it with --allow-remote, or [propose] allow_remote = true in saferec.toml"
        )
    for step, server in remote:
        if not server.key:
            raise UsageError(
                f"{server.host}{step.hint} wants a key: set the environment variable {step.key_env}, "
                f"or name another one: key_env in {section(step.named)}"
            )

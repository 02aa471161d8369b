"""Who proposes: `rules`, `learned`, `openai:NAME`, `batch:NAME`, a cascade of them, or the jury of saferec.toml."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import polars as pl

from saferec_builder import llm
from saferec_builder.core.errors import UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.proposing import known_ways
from saferec_builder.storage import config, workspace
from saferec_builder.storage.workspace import Workspace

WAYS = ("rules", "learned", "openai", "batch")
Find = Callable[[pl.DataFrame, Taxonomy], pl.DataFrame]  # conversations or items, traits -> tables.PROPOSALS


@dataclass(frozen=True)
class Step:
    """One proposer: how it is reached, its server (None: it reads in this process), and its price."""

    way: str
    server: llm.Server | None = None
    price: llm.Price | None = None
    named: str = ""  # in saferec.toml, [propose.models.NAMED]
    key_env: str = ""  # where its key is looked for
    version: str = ""  # of `learned`: by what it learned
    find: Find | None = None  # of `learned`: who reads
    retries_failed: bool = False  # asks again for what was paid for and of no use

    @property
    def name(self) -> str:
        """As proposals carry it: the model's own name, whatever way it was asked."""
        return self.server.model if self.server else self.way


def steps(ws: Workspace, named: str, model: str | None, base_url: str | None) -> tuple[list[Step], bool]:
    """The proposers of `--proposer`, and whether they are a cascade: each reads what those before left in doubt."""
    if jury := named == "jury":
        if not ws.config.propose.jury:
            raise UsageError(
                '--proposer jury: name its members: [propose] jury = ["openai:small", ...] in saferec.toml'
            )
        words, model = ws.config.propose.jury, None
    else:
        words = [word.strip() for word in named.split(",")]
        if len(words) > 1 and (model or base_url):
            raise UsageError(
                "--model and --base-url are for one proposer: name models as in --proposer rules,openai:small"
            )
    made = [_remembered(ws, proposer(ws, word, model, base_url)) for word in words]
    names = [step.name for step in made]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--proposer {named}: {twice} stands twice: what is read is kept under the model's own name")
    return made, not jury and len(made) > 1


def again(step: Step) -> Step:
    """The step as it asks again for what was of no use, and for the best way of asking."""
    server = replace(step.server, way=llm.Server.way, refuses=()) if step.server else None
    return replace(step, server=server, retries_failed=True)


def _remembered(ws: Workspace, step: Step) -> Step:
    """Its server asked in the way that was found for it before."""
    return replace(step, server=known_ways.known(ws, step.server)) if step.server else step


def proposer(ws: Workspace, word: str, model: str | None, base_url: str | None) -> Step:
    """One word of `--proposer` by saferec.toml alone: no table is read."""
    way, _, name = word.partition(":")
    if way not in WAYS:
        named = f"did you mean openai:{word}? expected one of {', '.join(WAYS)}"
        known = named if word in ws.config.propose.models else near(way, WAYS)
        raise UsageError(f"--proposer {word}: {known}, several with commas, or jury")
    if way in ("rules", "learned"):
        return Step(way)
    if name and model and name != model:
        raise UsageError(f"--proposer {word} and --model {model} name two models: leave one of them out")
    name = name or model or ws.config.propose.model or ""
    if not name:
        raise UsageError(f"--proposer {way}: which model? give --model or [propose] model in saferec.toml")
    return _model(ws, way, name, base_url)


def _model(ws: Workspace, way: str, name: str, base_url: str | None) -> Step:
    """A model by its name in saferec.toml, or by the name that its server has for it."""
    options = ws.config.propose
    named = options.models.get(name) or config.Model()
    urls = (base_url, named.base_url, options.base_url, llm.OPENAI)  # an empty one is none of OpenAI
    url = next(one for one in urls if one is not None)
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        shown = url.rpartition("@")[2]  # without a password
        expected = "expected one like https://host/v1 or http://127.0.0.1:8000/v1"
        raise UsageError(f"model {name}: base_url {shown!r}: no address: {expected}")
    if "@" in parts.netloc:
        raise UsageError(f"model {name}: base_url holds a user or password: put the key into ${named.key_env} instead")
    key = os.environ.get(named.key_env) or "unused"
    limits = (options.concurrency, options.timeout, options.retries)
    headers, secrets = _headers(name, named)
    server = llm.Server(named.model or name, url, key, *limits, _sampling(options, named), headers, secrets)
    price = None
    if named.input is not None and named.output is not None:
        price = llm.Price(named.input, named.output, named.cached_input)
        price = price.times(options.batch_factor) if way == "batch" else price
    if server.key == "unused" and not server.is_loopback:
        server = replace(server, key="")  # consent says which variable is missing
    return Step(way, server, price, name, named.key_env)


def _sampling(options: config.Proposer, named: config.Model) -> llm.Sampling:
    """What each request says beside its text; a part of its name, so that another setting asks anew."""
    limit = named.max_completion_tokens or (None if named.max_tokens else options.max_tokens)
    said: dict[str, JsonValue] = {"temperature": named.temperature, "max_completion_tokens": limit}
    said |= {"max_tokens": named.max_tokens, "reasoning_effort": named.reasoning_effort}
    return tuple((name, value) for name, value in (said | named.extra_body).items() if value is not None)


def _headers(name: str, named: config.Model) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """(headers, those values of them that stand in the environment)."""
    made, secrets = [], []
    for header, value in named.headers.items():
        if value.startswith("$"):
            if not (found := os.environ.get(value[1:])):
                raise UsageError(f"[propose.models.{name}] headers: {header}: set the environment variable {value[1:]}")
            secrets.append(found)
            value = found
        made.append((header, value))
    return tuple(made), tuple(secrets)


def priced(made: list[Step], budget: float | None) -> None:
    """A budget holds only where it is known what a model costs."""
    unpriced = [step.named for step in made if step.server and not step.price]
    if unpriced and budget is not None:
        raise UsageError(
            f"a budget needs prices: [propose.models.{unpriced[0]}] input and output in saferec.toml "
            "(USD per million tokens)"
        )


def asking(ws: Workspace, made: list[Step]) -> AbstractContextManager[None]:
    """Held while servers are asked: two commands at once would each spend what is left of a budget, and ask, and pay
    for, what the other has not got its answer to yet."""
    asks = any(step.server for step in made)
    return workspace.alone(ws, "propose by a model") if asks else nullcontext()


def consent(made: list[Step], allowed: bool, rows: int, noun: str, fields: str) -> None:
    """Nothing leaves this machine without a yes to these hosts, and no remote host is asked without a key."""
    remote = [(step, step.server) for step in made if step.server and not step.server.is_loopback]
    if not remote or not rows:
        return
    hosts = ", ".join(dict.fromkeys(server.host for _, server in remote))
    if not allowed:
        raise UsageError(
            f"{hosts} is not this machine: {rows:,} {noun} ({fields}) would be sent to it; "
            "allow it with --allow-remote, or [propose] allow_remote = true in saferec.toml"
        )
    for step, server in remote:
        if not server.key:
            raise UsageError(
                f"{server.host} wants a key: set the environment variable {step.key_env}, "
                f"or name another one: key_env in [propose.models.{step.named}]"
            )

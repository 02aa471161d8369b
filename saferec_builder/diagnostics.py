"""The checks of `doctor`: each gives one finding or a few, and a failing check never hides the others.

A finding is `ok`, `note` (saferec.toml does not need it) or `missing` (saferec.toml needs it). A finding never holds a
key or token, only the name of its variable and whether it is set.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from annotation.connections import server_folder
from annotation.tools import local_label_studio as managed
from saferec_builder import llm
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.counts import many
from saferec_builder.core.errors import SafeRecError, UsageError
from saferec_builder.proposing import proposers
from saferec_builder.sources import doesthedogdie_api as ddd_api
from saferec_builder.storage import config, migrations, tables, workspace
from saferec_builder.storage.workspace import Workspace

OK, NOTE, MISSING = "ok", "note", "missing"
SECONDS = 5.0  # until a server must have answered
ROOM = 2 << 30  # bytes of free disk and memory; with less, the finding names a remedy
FOR = {
    "label-studio": "reviews in Label Studio",
    "argilla": "reviews in Argilla",
    "page": "reviews on the page of `review serve`",
    "hub": "publishing to the Hugging Face Hub",
    "croissant": "validating croissant.json",
    "train": "training and evaluating models",
    "ray": "mining on a cluster",
}


@dataclass(frozen=True)
class Finding:
    what: str
    state: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Examination:
    """What this machine and a workspace have and what they lack, each finding with its remedy."""

    checks: tuple[Finding, ...]

    @property
    def missing(self) -> int:
        return sum(check.state == MISSING for check in self.checks)


def examine(folder: Path | str = ".") -> Examination:
    """Checks the machine and what saferec.toml in this folder needs; a fault in that file is a finding, no error."""
    root = Path(folder)
    findings = list(machine(root))
    if (root / config.FILE).exists():
        try:
            findings += configured(Workspace.unchecked(root))  # a wrong taxonomy is a finding of its own
        except UsageError as fault:  # the findings about the machine stay
            findings.append(Finding("saferec.toml", MISSING, " ".join(str(fault).split()), "correct it"))
    else:
        findings.append(Finding("workspace", NOTE, "none here", "saferec-build init DIR, then cd DIR"))
    return Examination(tuple(findings))


# ---- the machine


def machine(folder: Path) -> Iterator[Finding]:
    """Python, the installed packages, disk, memory, GPU."""
    yield Finding("python", OK, platform.python_version())
    yield from packages()
    yield _disk(folder)
    yield _memory()
    yield _gpu()


def packages() -> Iterator[Finding]:
    """The program and the packages that it needs, then each extra."""
    needed: dict[str, list[str]] = {}
    for line in metadata.requires("saferec-builder") or []:
        name, _, marker = line.partition(";")
        extra_of = re.search(r"extra == ['\"]([\w-]+)", marker)
        needed.setdefault(extra_of[1] if extra_of else "", []).append(name.strip())
    for extra, lines in needed.items():
        if extra == "all":
            continue
        faults = [fault for fault in map(_fault, lines) if fault]
        if not extra:
            summary = f"{metadata.version('saferec-builder')}; {len(lines)} packages as required"
            remedy = "pip install --upgrade saferec-builder"
            state = (MISSING, "; ".join(faults), remedy) if faults else (OK, summary, "")
            yield Finding("saferec-builder", *state)
        elif faults:
            yield Finding(f"extra {extra}", NOTE, "; ".join(faults), f"for {FOR.get(extra, extra)}: {pip(extra)}")
        else:
            yield Finding(f"extra {extra}", OK, ", ".join(map(_versioned, lines)))


def pip(extra: str) -> str:
    return f'pip install "saferec-builder[{extra}]"'


def _fault(line: str) -> str | None:
    """What is wrong with the installed package of a requirement such as `name[extra]>=1.2,<2`; None if nothing is."""
    name = _name(line)
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is not installed"
    bounds = re.findall(r"(>=|<)([\d.]+)", line)
    fits = all((_numbers(installed) >= _numbers(bound)) == (sign == ">=") for sign, bound in bounds)
    return None if fits else f"{name} {installed}, expected {', '.join(sign + bound for sign, bound in bounds)}"


def _name(line: str) -> str:
    return re.split(r"[^\w.-]", line)[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", re.split(r"[a-z+]", version)[0]))


def _versioned(line: str) -> str:
    return f"{_name(line)} {metadata.version(_name(line))}"


def _disk(folder: Path) -> Finding:
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    return _room("disk", free, "make room, or move the workspace")


def _memory() -> Finding:
    try:
        text = Path("/proc/meminfo").read_text()
        free = int(text.split("MemAvailable:")[1].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        return Finding("memory", NOTE, "this system does not say how much is free")
    return _room("memory", free, "close programs; mine with a larger [reddit] buckets")


def _room(what: str, free: int, remedy: str) -> Finding:
    amount = f"{free / (1 << 30):.1f} GiB free"
    return Finding(what, NOTE, amount, remedy) if free < ROOM else Finding(what, OK, amount)


def _gpu() -> Finding:
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return Finding("gpu", NOTE, "none found", "only large models need one: docs/how-to/gpu.md")
    return Finding("gpu", OK, "; ".join(result.stdout.split("\n")).strip("; "))


# ---- what saferec.toml needs


def configured(ws: Workspace) -> Iterator[Finding]:
    """Everything that the workspace's saferec.toml names."""
    yield _writable(ws.root)
    yield from _files(ws)
    yield _database(ws)
    yield from _models(ws)
    yield from _review(ws)
    yield from _hub(ws)
    unset = (NOTE, "not set", "`catalog fetch ddd` needs it: it stands in your profile there")
    yield Finding(ddd_api.KEY, *((OK, "set") if os.environ.get(ddd_api.KEY) else unset))


def _writable(root: Path) -> Finding:
    ok = os.access(root, os.W_OK | os.X_OK)
    return Finding("workspace", *((OK, str(root)) if ok else (MISSING, f"{root}: read-only", "chmod u+w it")))


def _files(ws: Workspace) -> Iterator[Finding]:
    if ws.config.taxonomy.path:
        try:
            count = len(traits.load(ws.root / ws.config.taxonomy.path).traits)
            yield Finding("taxonomy", OK, f"{ws.config.taxonomy.path}: {many(count, 'trait', 'traits')}")
        except (SafeRecError, OSError) as fault:
            yield Finding("taxonomy", MISSING, " ".join(str(fault).split()), "correct [taxonomy] path or the file")
    with suppress(SafeRecError):  # _database reports a database that cannot be read
        if problem := workspace.cut_short(ws.root / ".secret") or workspace.without_secret(ws):
            yield Finding("secret", MISSING, f".secret: {problem}", workspace.NO_SECRET)
    if name := ws.config.propose.prompt:
        exists = (ws.root / name).is_file()
        yield Finding("prompt", *((OK, name) if exists else (MISSING, f"{name}: no such file", "see [propose] prompt")))


def _database(ws: Workspace) -> Finding:
    what = "database"
    if not (ws.config.store.url or (ws.root / "workspace.db").exists()):
        return Finding(what, OK, "workspace.db, made by the first command that needs it")
    try:
        rows, older = workspace.read(ws, tables.REVIEWS).height, min(workspace.schemas(ws), default=migrations.newest())
    except SafeRecError as fault:
        message = " ".join(str(fault).split())
        remedy = "start the server, or correct [store] url" if ws.config.store.url else "docs/how-to/bad-day.md"
        return Finding(what, MISSING, message[:200], remedy)
    newest, old = migrations.newest(), f", shards from schema {older} on, brought up to date as they are read"
    return Finding(what, OK, f"{many(rows, 'review', 'reviews')}, schema {newest}{old if older < newest else ''}")


def _models(ws: Workspace) -> Iterator[Finding]:
    section = ws.config.propose
    names = [f"openai:{name}" for name in section.models]
    names += ["openai"] if section.model else []
    for proposer in dict.fromkeys([*names, *section.jury]):
        try:
            step = proposers.proposer(ws, proposer, None, None)
        except SafeRecError as fault:
            yield Finding(
                f"model {proposer}", MISSING, " ".join(str(fault).split()), "correct [propose] in saferec.toml"
            )
            continue
        if step.server is not None:
            yield from _model(proposer, step.server, step.key_env, section.allow_remote)


def _model(proposer: str, server: llm.Server, variable: str, allowed: bool) -> Iterator[Finding]:
    """The key of a remote server, then whether the server answers; a key is sent only with the user's consent."""
    if remote := not server.is_loopback:
        state = (OK, "set") if server.key else (MISSING, "not set", f"export {variable}=… (its server is remote)")
        yield Finding(f"key {variable} of {proposer}", *state)
    yield _answers(f"server of {proposer}", server.base_url + "/models", server.key if allowed or not remote else "")
    if remote and not allowed:
        yield Finding(f"consent for {proposer}", NOTE, "allow_remote = false", "commands will want --allow-remote")


def _answers(what: str, url: str, key: str = "", remedy: str = "") -> Finding:
    """Whether a server answers at this URL and accepts the key; only the request line and the key are sent."""
    address = _place(url)
    try:
        # a server on this machine is asked directly, without the proxy of the environment
        with httpx2.Client(timeout=SECONDS, trust_env=not llm.Server("", url).is_loopback) as client:
            status = client.get(url, headers={"Authorization": f"Bearer {key}"} if key else {}).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as fault:
        return Finding(what, MISSING, f"{address}: {type(fault).__name__}", remedy or "start it, or correct base_url")
    if status in (401, 403) and key:
        return Finding(what, MISSING, f"{address} refuses the key ({status})", "put a valid key into the variable")
    return Finding(what, OK, f"{address} answers ({status})")


def _place(url: str) -> str:
    """Host and port, without user, password, path and query."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or '?'}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "an address that cannot be read"


def _review(ws: Workspace) -> Iterator[Finding]:
    try:
        facts = managed.state(folder := server_folder(ws))
    except SafeRecError as fault:
        yield Finding("label studio", MISSING, " ".join(str(fault).split()), "put your copy of it back")
        return
    if facts:
        running = managed.alive(folder, facts) and managed.healthy(facts["url"])
        state = (OK, f"{_place(facts['url'])} answers") if running else (NOTE, "not running", "saferec-build review up")
        yield Finding("label studio", *state)
        if len(facts["accounts"]) > 1:
            shared = f"{len(facts['accounts'])} people share it, and each can change what the others have there"
            yield Finding(
                "label studio", NOTE, shared, "`review pull` names what was changed; `review serve` keeps them apart"
            )
    elif not managed.installed():
        yield Finding("label studio", NOTE, "not installed", "`saferec-build review up` installs and starts one")
    if ws.config.review.accounts:
        name = "SAFEREC_REVIEW_TOKEN"
        token = (OK, "set") if os.environ.get(name) else (NOTE, "not set", "export it, or give --token to review push")
        yield Finding(f"key {name}", *token)


def _hub(ws: Workspace) -> Iterator[Finding]:
    repo = ws.config.dataset.repo
    if not repo:
        return
    if fault := _fault("huggingface-hub>=2.4"):
        yield Finding("hub", MISSING, fault, pip("hub"))
        return
    import huggingface_hub

    token = huggingface_hub.get_token()
    yield Finding("key HF_TOKEN", *((OK, "set") if token else (MISSING, "not set", "run `hf auth login`")))
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    yield _answers("hub", f"{endpoint}/api/whoami-v2", token or "", "check the network, or HF_ENDPOINT")

"""What `doctor` looks at: each check gives one line or a few, and a fault in one never hides the others.

A finding is `ok`, `note` (nothing that saferec.toml asks for) or `missing` (it asks for this). No key is ever part
of one: of keys and tokens only the name of the variable and whether it is set.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from annotation.servers import home
from annotation.tools import local_label_studio as managed
from saferec_builder import llm
from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import SafeRecError, UsageError
from saferec_builder.proposing import proposers
from saferec_builder.storage import config, migrations, tables, workspace
from saferec_builder.storage.workspace import Workspace

OK, NOTE, MISSING = "ok", "note", "missing"
SECONDS = 5.0  # that a server has for its answer
ROOM = 2 << 30  # bytes of disk and of memory under which a remedy is named
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
    """What this machine and a workspace have and lack, each finding with its remedy."""

    checks: tuple[Finding, ...]

    @property
    def missing(self) -> int:
        return sum(one.state == MISSING for one in self.checks)


def examine(folder: Path | str = ".") -> Examination:
    """The machine, and what saferec.toml in this folder asks for; a fault in it is a finding, never an error."""
    place = Path(folder)
    found = list(machine(place))
    if (place / config.FILE).exists():
        try:
            found += asked(Workspace.open(place))
        except UsageError as fault:  # the machine was looked at all the same
            found.append(Finding("saferec.toml", MISSING, " ".join(str(fault).split()), "correct it"))
    else:
        found.append(Finding("workspace", NOTE, "none here", "saferec-build init DIR, then cd DIR"))
    return Examination(tuple(found))


# ---- the machine


def machine(folder: Path) -> Iterator[Finding]:
    """Python, the installed packages, disk, memory, GPU."""
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    yield Finding("python", MISSING if old else OK, version, "install Python 3.11 or newer" if old else "")
    yield from packages()
    yield _disk(folder)
    yield _memory()
    yield _gpu()


def packages() -> Iterator[Finding]:
    """The program with what it needs, then each extra."""
    needed: dict[str, list[str]] = {}
    for line in metadata.requires("saferec-builder") or []:
        name, _, marker = line.partition(";")
        named = re.search(r"extra == ['\"]([\w-]+)", marker)
        if named or "sys_platform" not in marker or sys.platform != "win32":
            needed.setdefault(named[1] if named else "", []).append(name.strip())
    for extra, lines in needed.items():
        if extra == "all":
            continue
        faults = [fault for fault in map(_fault, lines) if fault]
        if not extra:
            found = f"{metadata.version('saferec-builder')}; {len(lines)} packages as required"
            again = "pip install --upgrade saferec-builder"
            state = (MISSING, "; ".join(faults), again) if faults else (OK, found, "")
            yield Finding("saferec-builder", *state)
        elif faults:
            yield Finding(f"extra {extra}", NOTE, "; ".join(faults), f"for {FOR.get(extra, extra)}: {pip(extra)}")
        else:
            yield Finding(f"extra {extra}", OK, ", ".join(map(_versioned, lines)))


def pip(extra: str) -> str:
    return f'pip install "saferec-builder[{extra}]"'


def _fault(line: str) -> str | None:
    """What is wrong with an installed package, measured by `name[extra]>=1.2,<2`."""
    name = _name(line)
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is not installed"
    bounds = re.findall(r"(>=|<)([\d.]+)", line)
    fits = all((_numbers(found) >= _numbers(bound)) == (sign == ">=") for sign, bound in bounds)
    return None if fits else f"{name} {found}, expected {', '.join(sign + bound for sign, bound in bounds)}"


def _name(line: str) -> str:
    return re.split(r"[^\w.-]", line)[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", re.split(r"[a-z+]", version)[0]))


def _versioned(line: str) -> str:
    return f"{_name(line)} {metadata.version(_name(line))}"


def _disk(folder: Path) -> Finding:
    there = next(place for place in (folder, *folder.resolve().parents) if place.exists())
    free = shutil.disk_usage(there).free
    return _room("disk", free, "make room, or move the workspace")


def _memory() -> Finding:
    try:
        text = Path("/proc/meminfo").read_text()
        free = int(text.split("MemAvailable:")[1].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        return Finding("memory", NOTE, "this system does not say how much is free")
    return _room("memory", free, "close programs; mine with a larger [reddit] buckets")


def _room(what: str, free: int, remedy: str) -> Finding:
    found = f"{free / (1 << 30):.1f} GiB free"
    return Finding(what, NOTE, found, remedy) if free < ROOM else Finding(what, OK, found)


def _gpu() -> Finding:
    words = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return Finding("gpu", NOTE, "none found", "only large models need one: docs/how-to/gpu.md")
    return Finding("gpu", OK, "; ".join(ran.stdout.split("\n")).strip("; "))


# ---- what saferec.toml asks for


def asked(ws: Workspace) -> Iterator[Finding]:
    """Everything that the workspace's saferec.toml names."""
    yield _writable(ws.root)
    yield from _files(ws)
    yield _database(ws)
    yield from _models(ws)
    yield from _review(ws)
    yield from _hub(ws)
    key = "DDD_API_KEY"
    yield (
        Finding(key, OK, "set")
        if os.environ.get(key)
        else Finding(key, NOTE, "not set", "`catalog fetch ddd` needs it: it stands in your profile there")
    )


def _writable(root: Path) -> Finding:
    ok = os.access(root, os.W_OK | os.X_OK)
    return Finding("workspace", *((OK, str(root)) if ok else (MISSING, f"{root}: read-only", "chmod u+w it")))


def _files(ws: Workspace) -> Iterator[Finding]:
    if ws.config.taxonomy.path:
        try:
            found = len(traits.load(ws.root / ws.config.taxonomy.path).traits)
            yield Finding("taxonomy", OK, f"{ws.config.taxonomy.path}: {found} traits")
        except (SafeRecError, OSError) as fault:
            yield Finding("taxonomy", MISSING, " ".join(str(fault).split()), "correct [taxonomy] path or the file")
    with suppress(SafeRecError):  # a database that cannot be read is named below
        if lost := workspace.cut_short(ws.root / ".secret") or workspace.without_secret(ws):
            yield Finding("secret", MISSING, f".secret: {lost}", workspace.NO_SECRET)
    if name := ws.config.propose.prompt:
        there = (ws.root / name).is_file()
        yield Finding("prompt", *((OK, name) if there else (MISSING, f"{name}: no such file", "see [propose] prompt")))


def _database(ws: Workspace) -> Finding:
    what = "database"
    if not (ws.config.store.url or (ws.root / "workspace.db").exists()):
        return Finding(what, OK, "workspace.db, made by the first command that needs it")
    try:
        rows, older = workspace.read(ws, tables.REVIEWS).height, min(workspace.schemas(ws), default=migrations.newest())
    except SafeRecError as fault:
        found = " ".join(str(fault).split())
        remedy = "start the server, or correct [store] url" if ws.config.store.url else "docs/how-to/bad-day.md"
        return Finding(what, MISSING, found[:200], remedy)
    newest, old = migrations.newest(), f", shards from schema {older} on, brought up to date as they are read"
    return Finding(what, OK, f"{rows:,} reviews, schema {newest}{old if older < newest else ''}")


def _models(ws: Workspace) -> Iterator[Finding]:
    section = ws.config.propose
    words = [f"openai:{name}" for name in section.models]
    words += ["openai"] if section.model else []
    for word in dict.fromkeys([*words, *section.jury]):
        try:
            step = proposers.proposer(ws, word, None, None)
        except SafeRecError as fault:
            yield Finding(f"model {word}", MISSING, " ".join(str(fault).split()), "correct [propose] in saferec.toml")
            continue
        if step.server is not None:
            name = word.partition(":")[2]
            yield from _model(word, step.server, section.models.get(name), section.allow_remote)


def _model(word: str, server: llm.Server, named: config.Model | None, allowed: bool) -> Iterator[Finding]:
    """Its key where it is not on this machine, then whether it answers; a key goes out only with the user's consent."""
    remote = not server.is_loopback
    variable = named.key_env if named else "OPENAI_API_KEY"
    if remote:
        state = (OK, "set") if server.key else (MISSING, "not set", f"export {variable}=… (its server is remote)")
        yield Finding(f"key {variable} of {word}", *state)
    yield _answers(f"server of {word}", server.base_url + "/models", server.key if allowed or not remote else "")
    if remote and not allowed:
        yield Finding(f"consent for {word}", NOTE, "allow_remote = false", "commands will want --allow-remote")


def _answers(what: str, url: str, key: str = "", remedy: str = "") -> Finding:
    """Whether something speaks HTTP there, and takes the key; nothing but the request line and the key is sent."""
    where = _place(url)
    try:
        # an address on this machine is asked directly, whatever proxy the environment names
        with httpx2.Client(timeout=SECONDS, trust_env=not llm.Server("", url).is_loopback) as client:
            found = client.get(url, headers={"Authorization": f"Bearer {key}"} if key else {}).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as fault:
        return Finding(what, MISSING, f"{where}: {type(fault).__name__}", remedy or "start it, or correct base_url")
    if found in (401, 403) and key:
        return Finding(what, MISSING, f"{where} refuses the key ({found})", "put a valid key into the variable")
    return Finding(what, OK, f"{where} answers ({found})")


def _place(url: str) -> str:
    """Host and port; never what stands before an @, nor a query."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or '?'}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "an address that cannot be read"


def _review(ws: Workspace) -> Iterator[Finding]:
    try:
        facts = managed.state(home(ws))
    except SafeRecError as fault:
        yield Finding("label studio", MISSING, " ".join(str(fault).split()), "put your copy of it back")
        return
    if facts:
        up = managed.healthy(facts["url"])
        state = (OK, f"{_place(facts['url'])} answers") if up else (NOTE, "not running", "saferec-build review up")
        yield Finding("label studio", *state)
        if len(facts["accounts"]) > 1:
            say = f"{len(facts['accounts'])} people share it, and each can change what the others have there"
            yield Finding(
                "label studio", NOTE, say, "`review pull` names what was changed; `review serve` keeps them apart"
            )
    elif not managed.installed():
        yield Finding("label studio", NOTE, "not installed", "`saferec-build review up` installs and starts one")
    if ws.config.review.accounts:
        name = "SAFEREC_REVIEW_TOKEN"
        found = (OK, "set") if os.environ.get(name) else (NOTE, "not set", "export it, or give --token to review push")
        yield Finding(f"key {name}", *found)


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

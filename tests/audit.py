"""`python -m tests.audit`: does pip-audit know a fault of any package that is installed here? Or could it not be told?

pip-audit ends with 0 and "No known vulnerabilities found" also where its source knows none of the packages. So its word
alone does not count: the source is first asked for a version with a fault that everybody knows, and every package must
come back as looked at. Options go to pip-audit (`-s osv`). What it looked at: this environment, and what
`saferec-build review up` installs for Label Studio.

Exit 0: all looked at, nothing known. 1: advisories. 2: not done, or not whole.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from packaging.version import Version

from tests import ROOT

OURS = "saferec-builder"
LABEL_STUDIO = ROOT / "annotation/tools/label-studio.txt"
KNOWN = {"jinja2": "2.11.2"}  # CVE-2020-28493 of 2021: a source of advisories that does not know it is none
Pins = dict[str, str]  # name -> version


@dataclass
class Found:
    """What a run of pip-audit says of the pins that it was given."""

    advisories: list[tuple[str, str, str]] = field(default_factory=list)  # name, version, ids and what mends it
    skipped: dict[str, str] = field(default_factory=dict)  # name -> why
    fault: str | None = None  # why there is no answer at all


def main(words: Sequence[str]) -> int:
    probe = ask(KNOWN, words)
    if probe.fault or not probe.advisories:
        why = probe.fault or f"it knows no fault of {pin(KNOWN)}: {said(probe)}"
        print(f"audit: NOT DONE: the advisory source did not answer: {why}")
        return 2
    told = 0
    for place, pins in (("this environment", installed()), (LABEL_STUDIO.name, pinned(LABEL_STUDIO))):
        told = max(told, report(place, pins, ask(pins, words)))
    print(("audit: nothing known", "audit: ADVISORIES", "audit: NOT WHOLE")[told])
    return told


def report(place: str, pins: Pins, found: Found) -> int:
    """Prints what was found of one set of packages; its exit code."""
    if found.fault:
        print(f"{place}: {len(pins)} packages NOT LOOKED AT: {found.fault}")
        return 2
    for name, version, what in found.advisories:
        print(f"{place}: {name} {version}: {what}")
    for name, why in found.skipped.items():
        print(f"{place}: {name} {pins[name]} was SKIPPED: {why}")
    looked = len(pins) - len(found.skipped)
    print(f"{place}: {looked} of {len(pins)} packages looked at, {len(found.advisories)} advisories")
    return 2 if found.skipped or not pins else int(bool(found.advisories))


# ---- what is installed


def installed() -> Pins:
    """Every package of this environment but our own; a build's own mark (`+cpu`) is no part of what advisories name."""
    found = {canonical(d.metadata["Name"]): d.version.partition("+")[0] for d in distributions()}
    return {name: found[name] for name in sorted(found) if name != OURS}


def pinned(path: Path) -> Pins:
    """Every pin of a requirements file, also of those that only some versions of Python need."""
    lines = [line.partition("#")[0].partition(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pin(pins: Pins) -> str:
    return " ".join(f"{name} {version}" for name, version in pins.items())


# ---- pip-audit


def ask(pins: Pins, words: Sequence[str]) -> Found:
    """pip-audit about exactly these versions, with nothing resolved, installed or remembered from before."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "pins.txt"
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
        tool = [sys.executable, "-m", "pip_audit", "--requirement", str(wanted), "--no-deps", "--disable-pip"]
        tool += ["--format", "json", "--progress-spinner", "off", "--cache-dir", str(Path(folder) / "cache"), *words]
        ran = subprocess.run(tool, capture_output=True, text=True, check=False)
    return read(pins, ran.returncode, ran.stdout, ran.stderr)


def read(pins: Pins, code: int, out: str, err: str) -> Found:
    """What its exit code and streams mean; a package that it does not name was not looked at."""
    try:
        rows = {canonical(row["name"]): row for row in json.loads(out)["dependencies"]}
        known = [(name, row.get("version"), row.get("vulns", [])) for name, row in rows.items()]
        advisories = [(name, str(version), advisory(one)) for name, version, vulns in known for one in vulns]
    except (ValueError, KeyError, TypeError, AttributeError):
        last = [line for line in err.splitlines() if line.strip()][-1:] or ["no reason given"]
        return Found(fault=f"pip-audit ended with {code}: {' '.join(last[0].split())[:300]}")
    if code not in (0, 1) or (code == 1) is not bool(advisories):
        return Found(fault=f"pip-audit ended with {code} and names {len(advisories)} advisories: both cannot be")
    skipped = {}
    for name, version in pins.items():
        row = rows.get(name, {"skip_reason": "pip-audit does not name it"})
        if "vulns" not in row:
            skipped[name] = " ".join(str(row.get("skip_reason", "no reason given")).split())
        elif Version(row["version"]) != Version(version):
            skipped[name] = f"pip-audit looked at {row['version']} instead"
    return Found(advisories, skipped)


def advisory(row: dict[str, object]) -> str:
    """GHSA-x (CVE-y), mended in 1.2."""
    aliases, mended = (list(map(str, row.get(key) or [])) for key in ("aliases", "fix_versions"))  # type: ignore[call-overload]
    also = f" ({', '.join(aliases)})" if aliases else ""
    return f"{row['id']}{also}, {'mended in ' + ', '.join(mended) if mended else 'not mended yet'}"


def said(found: Found) -> str:
    return "; ".join(found.skipped.values()) or "no advisory came"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

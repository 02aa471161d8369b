"""`python -m tests.audit`: asks pip-audit whether any installed package has a known vulnerability.

pip-audit ends with 0 and "No known vulnerabilities found" also if its source knows none of the packages. So that alone
does not count: the source is first asked about a version with a well-known vulnerability, and pip-audit must report
every package as looked at. Options go to pip-audit (`-s osv`). It looks at this environment, and at what
`saferec-build review up` installs for Label Studio.

Exit 0: all packages looked at, nothing known. 1: advisories. 2: not done, or incomplete.
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
KNOWN = {"jinja2": "2.11.2"}  # CVE-2020-28493 of 2021: a source that does not know it is not usable
Pins = dict[str, str]  # name -> version


@dataclass
class Found:
    """The result of a run of pip-audit for a set of pins."""

    advisories: list[tuple[str, str, str]] = field(default_factory=list)  # name, version, ids and fixed versions
    skipped: dict[str, str] = field(default_factory=dict)  # name -> reason
    fault: str | None = None  # the reason why there is no answer at all


def main(words: Sequence[str]) -> int:
    probe = ask(KNOWN, words)
    if probe.fault or not probe.advisories:
        reason = probe.fault or f"it knows no fault of {pin(KNOWN)}: {said(probe)}"
        print(f"audit: NOT DONE: the advisory source did not answer: {reason}")
        return 2
    code = 0
    for place, pins in (("this environment", installed()), (LABEL_STUDIO.name, pinned(LABEL_STUDIO))):
        code = max(code, report(place, pins, ask(pins, words)))
    print(("audit: nothing known", "audit: ADVISORIES", "audit: NOT WHOLE")[code])
    return code


def report(place: str, pins: Pins, found: Found) -> int:
    """Prints the result for one set of packages; returns its exit code."""
    if found.fault:
        print(f"{place}: {len(pins)} packages NOT LOOKED AT: {found.fault}")
        return 2
    for name, version, advice in found.advisories:
        print(f"{place}: {name} {version}: {advice}")
    for name, reason in found.skipped.items():
        print(f"{place}: {name} {pins[name]} was SKIPPED: {reason}")
    audited = len(pins) - len(found.skipped)
    print(f"{place}: {audited} of {len(pins)} packages looked at, {len(found.advisories)} advisories")
    return 2 if found.skipped or not pins else int(bool(found.advisories))


# ---- what is installed


def installed() -> Pins:
    """Every package of this environment but our own, without marks of builds (`+cpu`): advisories omit them."""
    versions = {canonical(d.metadata["Name"]): d.version.partition("+")[0] for d in distributions()}
    return {name: versions[name] for name in sorted(versions) if name != OURS}


def pinned(path: Path) -> Pins:
    """Every pin of a requirements file, also those that only some versions of Python need."""
    lines = [line.partition("#")[0].partition(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pin(pins: Pins) -> str:
    return " ".join(f"{name} {version}" for name, version in pins.items())


# ---- pip-audit


def ask(pins: Pins, words: Sequence[str]) -> Found:
    """Asks pip-audit about exactly these versions: it resolves and installs nothing, and its cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "pins.txt"
        requirements.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
        tool = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"]
        tool += ["--format", "json", "--progress-spinner", "off", "--cache-dir", str(Path(folder) / "cache"), *words]
        process = subprocess.run(tool, capture_output=True, text=True, check=False)
    return read(pins, process.returncode, process.stdout, process.stderr)


def read(pins: Pins, code: int, out: str, err: str) -> Found:
    """Reads the exit code and streams of pip-audit; a package that it does not name was not looked at."""
    try:
        rows = {canonical(row["name"]): row for row in json.loads(out)["dependencies"]}
        packages = [(name, row.get("version"), row.get("vulns", [])) for name, row in rows.items()]
        advisories = [(name, str(version), advisory(vuln)) for name, version, vulns in packages for vuln in vulns]
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = [line for line in err.splitlines() if line.strip()][-1:] or ["no reason given"]
        return Found(fault=f"pip-audit ended with {code}: {' '.join(reason[0].split())[:300]}")
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
    """The text of one advisory: GHSA-x (CVE-y), mended in 1.2."""
    aliases, fixes = (list(map(str, row.get(key) or [])) for key in ("aliases", "fix_versions"))  # type: ignore[call-overload]
    other_ids = f" ({', '.join(aliases)})" if aliases else ""
    return f"{row['id']}{other_ids}, {'mended in ' + ', '.join(fixes) if fixes else 'not mended yet'}"


def said(found: Found) -> str:
    return "; ".join(found.skipped.values()) or "no advisory came"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

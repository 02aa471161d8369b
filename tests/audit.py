"""`python -m tests.audit`: asks pip-audit whether any installed package has a known vulnerability.

pip-audit ends with 0 and "No known vulnerabilities found" also if its source knows none of the packages. So the source
is first asked about a version with a well-known vulnerability, and a package that it skips is a failure (`--strict`).
Options go to pip-audit (`-s osv`). It looks at this environment, and at what `saferec-build review up` installs for
Label Studio. Exit 0: all packages looked at, nothing known. 1: advisories, or packages not looked at. 2: no answer.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name as canonical

from tests import ROOT

OURS = "saferec-builder"
LABEL_STUDIO = ROOT / "annotation/tools/label-studio.txt"
KNOWN = {"jinja2": "2.11.2"}  # CVE-2020-28493 of 2021: a source that does not know it is not usable
NOTHING = '{"dependencies": []}'
Pins = dict[str, str]  # name -> version


def main(words: Sequence[str]) -> int:
    probe = ask(KNOWN, "--format", "json", *words)
    if not any(row.get("vulns") for row in json.loads(probe.stdout or NOTHING)["dependencies"]):
        reason = [line for line in probe.stderr.splitlines() if line.strip()][-1:]
        print(f"audit: NOT DONE: the advisory source did not answer, or knows no fault of {KNOWN}: {reason}")
        return 2
    code = 0
    for place, pins in (("this environment", installed()), (LABEL_STUDIO.name, pinned(LABEL_STUDIO))):
        run = ask(pins, "--strict", *words)
        print(f"{place}: {len(pins)} packages", run.stdout, run.stderr, sep="\n")
        code = max(code, run.returncode)
    print("audit: NOT CLEAN OR NOT WHOLE" if code else "audit: nothing known")
    return code


def installed() -> Pins:
    """Every package of this environment but our own, without marks of builds (`+cpu`): advisories omit them."""
    versions = {canonical(d.metadata["Name"]): d.version.partition("+")[0] for d in distributions()}
    return {name: versions[name] for name in sorted(versions) if name != OURS}


def pinned(path: Path) -> Pins:
    """Every pin of a requirements file, also those that only some versions of Python need."""
    lines = [line.partition("#")[0].partition(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def ask(pins: Pins, *words: str) -> subprocess.CompletedProcess[str]:
    """Asks pip-audit about exactly these versions: it resolves and installs nothing, and its cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "pins.txt"
        requirements.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
        tool = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"]
        tool += ["--progress-spinner", "off", "--cache-dir", str(Path(folder) / "cache"), *words]
        return subprocess.run(tool, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

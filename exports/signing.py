"""Who made a release: an SSH signature over SHA256SUMS, which names every file of it; and who withdrew one.

OpenSSH's `ssh-keygen -Y` makes and checks it, offline. A reader who pins the digest of SHA256SUMS also sees an older
version that is offered under a newer name; a signature alone cannot show that.
"""

import subprocess
from pathlib import Path

from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.core.release_files import SUMS, sha256
from saferec_builder.storage.whole_files import replacing

RELEASE, WITHDRAWAL = "saferec-release", "saferec-withdrawal"  # so that no signature for another purpose counts


def sign(home: Path, key: Path) -> None:
    """Writes SHA256SUMS.sig with this private key; a signature that is there stays where that fails."""
    made = signature((home / SUMS).read_bytes(), key, RELEASE)
    with replacing(beside(home / SUMS)) as tmp:
        tmp.write_bytes(made)


def signature(content: bytes, key: Path, purpose: str) -> bytes:
    """Of these bytes by a private key; its public half will do where an agent holds it."""
    if not key.is_file():
        raise UsageError(f"--sign {key}: no such file: expected an SSH key, as `ssh-keygen -t ed25519` makes one")
    words = ["-Y", "sign", "-f", str(key), "-n", purpose]
    return _keygen(words, f"--sign {key}", content, "check the key and its passphrase")


def beside(path: Path) -> Path:
    """Where the signature of a file lies."""
    return path.with_name(f"{path.name}.sig")


def check(path: Path, purpose: str, signers: Path, identity: str) -> None:
    """Stops unless this file is signed by a key that `signers` (OpenSSH's allowed_signers) gives to this identity."""
    if not (found := beside(path)).is_file():
        what = "release" if purpose == RELEASE else "withdrawal"
        raise ReleaseError(f"{path.parent}: nobody signed this {what} ({found.name} is missing): ask who published it")
    if not signers.is_file():
        raise UsageError(f"--signer {signers}: no such file: expected lines of `IDENTITY KEY-TYPE KEY`")
    words = ["-Y", "verify", "-f", str(signers), "-I", identity, "-n", purpose, "-s", str(found)]
    remedy = "check the key, or fetch the release again"
    _keygen(words, f"{found}: not signed by {identity}", path.read_bytes(), remedy)


def check_digest(home: Path, digest: str) -> None:
    """Stops unless SHA256SUMS has this sha256."""
    if (found := sha256(home / SUMS)) != digest.lower():
        raise ReleaseError(f"{home / SUMS}: sha256 is {found}, expected {digest}: this is another release")


def _keygen(words: list[str], what: str, given: bytes, remedy: str) -> bytes:
    try:
        ran = subprocess.run(["ssh-keygen", *words], input=given, capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        raise UsageError(f"{what}: needs OpenSSH's ssh-keygen, 8.1 or later: install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{what}: ssh-keygen gave no answer in 60 seconds: load the key into ssh-agent") from None
    if ran.returncode:
        why = (ran.stderr or ran.stdout).decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise ReleaseError(f"{what}: {why[-1]}: {remedy}")
    return ran.stdout

"""Who made a release: an SSH signature over SHA256SUMS, which names every file of it.

OpenSSH's `ssh-keygen -Y` makes and checks it, offline. A reader who pins the digest of SHA256SUMS also sees an older
version that is offered under a newer name; a signature alone cannot show that.
"""

import subprocess
from pathlib import Path

from exports.folder import SIGNATURE, SUMS, sha256
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.storage.whole_files import replacing

NAMESPACE = "saferec-release"  # so that no signature made for another purpose counts


def sign(home: Path, key: Path) -> None:
    """Writes SHA256SUMS.sig with this private key (its public half will do where an agent holds it); a signature that
    is there stays where that fails."""
    if not key.is_file():
        raise UsageError(f"--sign {key}: no such file: expected an SSH key, as `ssh-keygen -t ed25519` makes one")
    words = ["-Y", "sign", "-f", str(key), "-n", NAMESPACE]
    made = _keygen(words, f"--sign {key}", (home / SUMS).read_bytes(), "check the key and its passphrase")
    with replacing(home / SIGNATURE) as tmp:
        tmp.write_bytes(made)


def check(home: Path, signers: Path, identity: str) -> None:
    """Stops unless SHA256SUMS is signed by a key that `signers` (OpenSSH's allowed_signers) gives to this identity."""
    signature = home / SIGNATURE
    if not signature.is_file():
        raise ReleaseError(f"{home}: nobody signed this release ({SIGNATURE} is missing): ask who published it")
    if not signers.is_file():
        raise UsageError(f"--signer {signers}: no such file: expected lines of `IDENTITY KEY-TYPE KEY`")
    words = ["-Y", "verify", "-f", str(signers), "-I", identity, "-n", NAMESPACE, "-s", str(signature)]
    sums = (home / SUMS).read_bytes()
    _keygen(words, f"{signature}: not signed by {identity}", sums, "check the key, or fetch the release again")


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

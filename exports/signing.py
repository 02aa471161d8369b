"""Signs releases (SHA256SUMS, which lists all files) and withdrawals with SSH keys, and checks the signatures.

OpenSSH's `ssh-keygen -Y` makes and checks signatures, offline. Only a reader who pins the digest of SHA256SUMS detects
an older version that is offered as a newer one.
"""

import subprocess
from pathlib import Path

from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.core.release_files import SUMS, sha256
from saferec_builder.storage.whole_files import replacing

RELEASE, WITHDRAWAL = "saferec-release", "saferec-withdrawal"  # a signature for another purpose does not count


def sign(release: Path, key: Path) -> None:
    """Writes SHA256SUMS.sig with this private key; an existing signature stays if that fails."""
    content = signature((release / SUMS).read_bytes(), key, RELEASE)
    with replacing(beside(release / SUMS)) as tmp:
        tmp.write_bytes(content)


def signature(content: bytes, key: Path, purpose: str) -> bytes:
    """Returns the signature of these bytes by a private key; its public half is enough if an agent holds the key."""
    if not key.is_file():
        raise UsageError(f"--sign {key}: no such file: expected an SSH key, as `ssh-keygen -t ed25519` makes one")
    arguments = ["-Y", "sign", "-f", str(key), "-n", purpose]
    return _keygen(arguments, f"--sign {key}", content, "check the key and its passphrase")


def beside(path: Path) -> Path:
    """Returns the path of the signature of a file."""
    return path.with_name(f"{path.name}.sig")


def check(path: Path, purpose: str, signers: Path, identity: str) -> None:
    """Raises unless the file is signed by a key that `signers` (OpenSSH's allowed_signers) has for this identity."""
    if not (signed := beside(path)).is_file():
        kind = "release" if purpose == RELEASE else "withdrawal"
        raise ReleaseError(f"{path.parent}: nobody signed this {kind} ({signed.name} is missing): ask who published it")
    if not signers.is_file():
        raise UsageError(f"--signer {signers}: no such file: expected lines of `IDENTITY KEY-TYPE KEY`")
    arguments = ["-Y", "verify", "-f", str(signers), "-I", identity, "-n", purpose, "-s", str(signed)]
    remedy = "check the key, or fetch the release again"
    _keygen(arguments, f"{signed}: not signed by {identity}", path.read_bytes(), remedy)


def check_digest(release: Path, digest: str) -> None:
    """Raises ReleaseError unless SHA256SUMS has this sha256."""
    if (actual := sha256(release / SUMS)) != digest.lower():
        raise ReleaseError(f"{release / SUMS}: sha256 is {actual}, expected {digest}: this is another release")


def _keygen(options: list[str], subject: str, content: bytes, remedy: str) -> bytes:
    try:
        ran = subprocess.run(["ssh-keygen", *options], input=content, capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        raise UsageError(f"{subject}: needs OpenSSH's ssh-keygen, 8.1 or later: install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{subject}: ssh-keygen gave no answer in 60 seconds: load the key into ssh-agent") from None
    if ran.returncode:
        reason = (ran.stderr or ran.stdout).decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise ReleaseError(f"{subject}: {reason[-1]}: {remedy}")
    return ran.stdout

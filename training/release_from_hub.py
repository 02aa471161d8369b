"""Downloads a release from the Hub by its name, NAMESPACE/NAME@VERSION, and checks it against its manifest."""

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from saferec_builder.core.errors import TrainingError, whole_object
from saferec_builder.core.release_files import WITHDRAWN, sha256

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_Found = TypeVar("_Found")
_NAME = re.compile(r"[\w.-]+/[\w.-]+@\d[\w.+-]*", re.ASCII)


def is_name(release: str) -> bool:
    return _NAME.fullmatch(release) is not None and not Path(release).exists()


def folder(release: str) -> Path:
    """Returns a local folder as it is; downloads the files of NS/NAME@VERSION once into the Hub's cache.

    Raises TrainingError for a version that was withdrawn on the Hub, or whose files differ from its manifest. For a
    local folder `data.open_release` checks both.
    HF_TOKEN, HF_ENDPOINT and HF_HOME are honoured.
    """
    if not is_name(release):
        return Path(release)
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise TrainingError(
            "a release on the Hub needs huggingface-hub: pip install 'saferec-builder[train]'"
        ) from None
    repo, version = release.rsplit("@", 1)
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="saferec-builder")
    _refuse_withdrawn(api, repo, version)
    download = partial(api.snapshot_download, repo, repo_type="dataset", revision=f"v{version}")
    path = Path(_from_hub(repo, version, download))
    _check(path, release)
    return path


def _refuse_withdrawn(api: "HfApi", repo: str, version: str) -> None:
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    def read() -> dict[str, str]:
        try:
            path = api.hf_hub_download(repo, WITHDRAWN, repo_type="dataset", revision="main")
        except LocalEntryNotFoundError:  # the Hub cannot be reached; also an EntryNotFoundError
            raise
        except EntryNotFoundError:
            return {}
        content = whole_object(Path(path).read_bytes())
        if content is None:  # unknown which versions were withdrawn
            raise TrainingError(f"{repo}: {WITHDRAWN} is damaged: ask who publishes it, or train on a local folder")
        return content

    reasons = _from_hub(repo, version, read)
    if version in reasons:
        raise TrainingError(f"{repo}@{version} was withdrawn ({reasons[version]}): train on another version")


def _from_hub(repo: str, version: str, ask: Callable[[], _Found]) -> _Found:
    """Calls `ask`; raises TrainingError with what to do if the Hub fails."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RevisionNotFoundError

    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    network = (*(client.TransportError for client in clients), TimeoutError, ConnectionError)
    try:
        return ask()
    except RevisionNotFoundError:
        raise TrainingError(f"{repo}: there is no version {version}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, *network) as fault:
        cause = fault.__cause__ if isinstance(fault, LocalEntryNotFoundError) and fault.__cause__ else fault
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status in (401, 403, 404):
            raise TrainingError(f"{repo} is not on the Hub, or HF_TOKEN may not read it ({status})") from None
        problem = f"answered {status}" if status else f"cannot be reached ({type(cause).__name__})"
        raise TrainingError(f"{repo}: the Hub {problem}: run it again later") from None


def _check(path: Path, release: str) -> None:
    try:
        files = (whole_object((path / "manifest.json").read_bytes()) or {})["files"]
        expected = {name: fact["sha256"] for name, fact in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise TrainingError(f"{release}: no manifest: expected what `saferec-build publish` made") from None
    for name, digest in expected.items():
        file = path / name
        if not file.is_file() or sha256(file) != digest:
            raise TrainingError(f"{release}: {name} is not what the manifest says: delete {path} and run it again")

"""Downloads a release from the Hub by its name, NAMESPACE/NAME@VERSION, unless this version was withdrawn."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from saferec_builder.core.errors import TrainingError, whole_object
from saferec_builder.core.release_files import WITHDRAWN, withdrawn_in

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_NAME = re.compile(r"[\w.-]+/[\w.-]+@\d[\w.+-]*", re.ASCII)


def is_name(release: str) -> bool:
    return _NAME.fullmatch(release) is not None and not Path(release).exists()


def folder(release: str) -> Path:
    """Returns a local folder as it is, and releases/VERSION for a version of the workspace in the current folder;
    downloads the files of NS/NAME@VERSION once into the Hub's cache.

    Raises TrainingError for a version that was withdrawn on the Hub; `data` checks each file of both as it reads it.
    HF_TOKEN, HF_ENDPOINT and HF_HOME are honoured.
    """
    if not is_name(release):
        of_workspace = Path("releases", release)
        return of_workspace if of_workspace.is_dir() and not Path(release).exists() else Path(release)
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RevisionNotFoundError
    except ImportError:
        raise TrainingError(
            "a release on the Hub needs huggingface-hub: pip install 'saferec-builder[train]'"
        ) from None
    repo, version = release.rsplit("@", 1)
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="saferec-builder")
    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    network = (*(client.TransportError for client in clients), TimeoutError, ConnectionError)
    try:
        if (reason := _withdrawn(api, repo).get(version)) is not None:
            raise TrainingError(f"{repo}@{version} was withdrawn ({reason}): train on another version")
        path = Path(api.snapshot_download(repo, repo_type="dataset", revision=f"v{version}"))
        manifest = path / "manifest.json"
        held = (whole_object(manifest.read_bytes()) or {}).get("version") if manifest.is_file() else None
        if held not in (version, None):  # without a version it is damaged, which its checksum shows
            raise TrainingError(f"{release}: the tag holds {held}, as somebody moved it: ask whoever published it")
        return path
    except RevisionNotFoundError:
        raise TrainingError(f"{repo}: there is no version {version}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, *network) as fault:
        cause = fault.__cause__ if isinstance(fault, LocalEntryNotFoundError) and fault.__cause__ else fault
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status in (401, 403, 404):
            raise TrainingError(f"{repo} is not on the Hub, or HF_TOKEN may not read it ({status})") from None
        problem = f"answered {status}" if status else f"cannot be reached ({type(cause).__name__})"
        raise TrainingError(f"{repo}: the Hub {problem}: run it again later") from None


def _withdrawn(api: "HfApi", repo: str) -> dict[str, str]:
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return withdrawn_in(Path(api.hf_hub_download(repo, WITHDRAWN, repo_type="dataset", revision="main")))
    except LocalEntryNotFoundError:  # the Hub cannot be reached; also an EntryNotFoundError
        raise
    except EntryNotFoundError:
        return {}

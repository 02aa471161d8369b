"""Where review tasks go and answers come from: a Label Studio or Argilla server, the page of
`review serve`, or one CSV per person."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from saferec_builder.core.errors import UsageError, near
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class LabelStudio:
    """A Label Studio server and its access token; without `url` the workspace's own (connections.start)."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Argilla:
    """An Argilla server, and the API key of an owner there."""

    url: str
    api_key: str = field(repr=False)


@dataclass(frozen=True)
class Files:
    """One CSV per person in `folder`, which is review/ in the workspace where it is None.

    A pull reads `paths` instead, CSVs or folders of them, where there are any.
    """

    folder: Path | str | None = None
    paths: Sequence[Path | str] | Path | str = ()

    @property
    def named(self) -> list[Path]:
        """The `paths`; a bare one is the only one."""
        return [Path(path) for path in ([self.paths] if isinstance(self.paths, Path | str) else self.paths)]

    def folder_of(self, ws: Workspace) -> Path:
        return ws.root / "review" if self.folder is None else Path(self.folder)

    def csvs(self, ws: Workspace) -> list[Path]:
        """What a pull reads; UsageError where a folder holds no CSV. Hidden files are none: macOS puts a `._NAME.csv`
        beside each on a disk that is not its own."""
        given = self.named or [self.folder_of(ws)]
        found = [
            file for path in given for file in (sorted(path.glob("[!.]*.[cC][sS][vV]")) if path.is_dir() else [path])
        ]
        if not found:
            raise UsageError(f"{given[0]}: no .csv file in this folder")
        return found


@dataclass(frozen=True)
class ReviewPage:
    """The page of `review serve`: it shows what the workspace holds, so nothing is sent and nothing pulled."""


Place = LabelStudio | Argilla | Files | ReviewPage
_PLACES: Mapping[str, Callable[[], Place]] = {"label-studio": LabelStudio, "files": Files, "page": ReviewPage}


def place(tool: str) -> Place:
    """What `--tool` calls so, as it is without further options; UsageError where it needs some, or there is none."""
    if tool == "argilla":
        raise UsageError("argilla: whose? expected Argilla(url, api_key)")
    if tool not in _PLACES:
        known = "Files(folder), LabelStudio(url, token) or Argilla(url, api_key)"
        raise UsageError(f"{tool}: no such place to review: {near(tool, _PLACES)}, or {known}")
    return _PLACES[tool]()

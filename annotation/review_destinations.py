"""The destinations of review tasks, from which answers come back: a Label Studio or Argilla server, the page of
`review serve`, or one CSV per person."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from saferec_builder.core.errors import UsageError, near
from saferec_builder.storage.workspace import Workspace

_OTHER_TABLES = (".xlsx", ".xls", ".ods", ".numbers", ".tsv", ".txt")  # as spreadsheet programs save them


@dataclass(frozen=True)
class LabelStudio:
    """A Label Studio server and its access token; without `url` the workspace's own server (connections.start)."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Argilla:
    """An Argilla server, and the API key of one of its owners."""

    url: str
    api_key: str = field(repr=False)


@dataclass(frozen=True)
class Files:
    """One CSV per person in `folder`; None means review/ in the workspace.

    If `paths` (CSVs or folders of CSVs) are given, a pull reads those instead.
    """

    folder: Path | str | None = None
    paths: Sequence[Path | str] | Path | str = ()

    @property
    def named(self) -> list[Path]:
        """The `paths` as a list; a single path becomes a list of one."""
        return [Path(path) for path in ([self.paths] if isinstance(self.paths, Path | str) else self.paths)]

    def folder_of(self, ws: Workspace) -> Path:
        return ws.root / "review" if self.folder is None else Path(self.folder)

    def csvs(self, ws: Workspace) -> list[Path]:
        """The files that a pull reads, those of a folder in the order in which they were saved: of two versions of one
        file the newer counts, whatever a browser calls it. Raises UsageError if there is none. Hidden files do not
        count: macOS adds a `._NAME.csv` beside each file on foreign disks."""
        sources = self.named or [self.folder_of(ws)]
        files = [file for path in sources for file in (_saved(path) if path.is_dir() else [path])]
        if not files:
            raise UsageError(f"{sources[0]}: no .csv file in this folder")
        return files

    def other_tables(self, ws: Workspace) -> list[str]:
        """The files of folders that may be sheets in another format: a pull names them, as it cannot read them."""
        folders = [path for path in self.named or [self.folder_of(ws)] if path.is_dir()]
        files = [file for folder in folders for file in sorted(folder.glob("[!.~]*"))]  # ~$NAME is open in Excel
        return [str(file) for file in files if file.suffix.lower() in _OTHER_TABLES]


def _saved(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*.[cC][sS][vV]"), key=lambda file: (file.lstat().st_mtime_ns, file.name))


@dataclass(frozen=True)
class ReviewPage:
    """The page of `review serve`, which reads and writes the workspace: nothing has to be sent or pulled."""


Place = LabelStudio | Argilla | Files | ReviewPage
_PLACES: Mapping[str, Callable[[], Place]] = {"label-studio": LabelStudio, "files": Files, "page": ReviewPage}


def place(tool: str) -> Place:
    """The destination of a `--tool` without further options; raises UsageError if it needs some or is unknown."""
    if tool == "argilla":
        raise UsageError("argilla: whose? expected Argilla(url, api_key)")
    if tool not in _PLACES:
        others = "Files(folder), LabelStudio(url, token) or Argilla(url, api_key)"
        raise UsageError(f"{tool}: no such place to review: {near(tool, _PLACES)}, or {others}")
    return _PLACES[tool]()

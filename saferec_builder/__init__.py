"""SafeRec Builder: personal-safety datasets for conversational recommenders.

`import saferec_builder` gives the functions and types of saferec_builder/api.py, which is imported with the first of
them: the rooms below are imported often, and nobody should wait for all of them.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

API = frozenset(  # saferec_builder.api.__all__; a test compares them
    """
    Adjudication Argilla Checker Counts Difference Examination Explained FetchResult Files Forgotten Gaps LabelStudio
    Linkage Merges MineResult Plan ProposeResult Published PullResult PushResult Rebuilt Release ReportPage ReviewPage
    ReviewStatus SafeRecError Score Screening Served Status Verdict Verified Withdrawn Workspace add_catalog adjudicate
    browse check checker examine fetch follow forget gaps hand_back join_rows keep_apart linkage merges mine opt_out
    plan propose pull push rebuild release report review_status score screen serve set_aside show status withdraw
    """.split()
)

if TYPE_CHECKING:
    from saferec_builder.api import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in API:  # a package of ours, for example: the import system looks for it itself
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _beside_us("annotation", "exports")
        return getattr(import_module("saferec_builder.api"), name)

    def _beside_us(*packages: str) -> None:
        """ImportError where a file or folder of the caller's has the name of a package that stands beside this one in
        the wheel, and is found first (a notebook looks into its own folder before anywhere else)."""
        home = Path(__file__).resolve().parent.parent
        for package in packages:
            spec = find_spec(package)
            found = Path(spec.origin).resolve() if spec and spec.origin else None
            if found is not None and found != home / package / "__init__.py":
                why = f"{found} has the name of a package that saferec_builder brings, and is found before it"
                raise ImportError(f"{why}: rename it, or start Python in another folder")


def __dir__() -> list[str]:
    return sorted({*globals(), *API})

"""SafeRec Builder: personal-safety datasets for conversational recommenders.

`import saferec_builder` gives the functions and types of saferec_builder/api.py, which is imported with the first of
them: the rooms below are imported often, and nobody should wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

API = frozenset(  # saferec_builder.api.__all__; a test compares them
    """
    Adjudication Argilla Counts Difference Examination Explained FetchResult Files Forgotten Gaps LabelStudio Merges
    MineResult Page Plan ProposeResult Published PullResult PushResult Rebuilt Release ReviewPage ReviewStatus
    SafeRecError Score Screening Served Status Verdict Verified Withdrawn Workspace add_catalog adjudicate browse check
    examine fetch follow forget gaps hand_back join_rows keep_apart merges mine opt_out plan propose pull push
    rebuild release report review_status score screen serve set_aside show status withdraw
    """.split()
)

if TYPE_CHECKING:
    from saferec_builder.api import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in API:  # a package of ours, for example: the import system looks for it itself
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("saferec_builder.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *API})

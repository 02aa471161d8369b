"""SafeRec Builder: personal-safety datasets for conversational recommenders.

`import saferec_builder` gives the functions and types of saferec_builder/api.py, which is imported with the first of
them: the rooms below are imported often, and nobody should wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

API = (  # saferec_builder.api.__all__; a test compares them
    *("Counts", "Explained", "FetchResult", "Gaps", "Merges", "MineResult", "ProposeResult", "SafeRecError", "Score"),
    *("Verdict", "Workspace", "add_catalog", "check", "fetch", "gaps", "keep_apart", "merges", "mine", "propose"),
    *("score", "show"),
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

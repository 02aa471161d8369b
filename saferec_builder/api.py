"""The line from Python: what `import saferec_builder` gives, in the order of the data.

    ws = Workspace.create("my-dataset")
    add_catalog(ws, "csv", ["items.csv"])      # items and warnings
    mine(ws, "messages", ["chats.jsonl"])      # conversations
    propose(ws)                                # what people imply, as claims with evidence

Each step is the function of its room, and each command of `saferec-build` calls one of them. What it gives is a frozen
dataclass with counts and tables; nothing is printed. docs/python.md shows the whole line.
"""

from saferec_builder.catalog.adding import FetchResult, add_catalog, fetch, keep_apart
from saferec_builder.catalog.explain import Explained, Verdict
from saferec_builder.catalog.lookup import Gaps, Merges, check, gaps, merges, show
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import SafeRecError
from saferec_builder.mining.ingest import MineResult, mine
from saferec_builder.proposing.evaluation import Score, score
from saferec_builder.proposing.run import ProposeResult, propose
from saferec_builder.storage.workspace import Workspace

__all__ = [
    "Counts",
    "Explained",
    "FetchResult",
    "Gaps",
    "Merges",
    "MineResult",
    "ProposeResult",
    "SafeRecError",
    "Score",
    "Verdict",
    "Workspace",
    "add_catalog",
    "check",
    "fetch",
    "gaps",
    "keep_apart",
    "merges",
    "mine",
    "propose",
    "score",
    "show",
]

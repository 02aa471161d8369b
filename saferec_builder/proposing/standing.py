"""How good the claims of `learned` are: measured once for the present labels, then stored in the workspace."""

from dataclasses import asdict, dataclass

from saferec_builder.scoring.linear_text import ENOUGH
from saferec_builder.storage import whole_files
from saferec_builder.storage.workspace import Workspace

_NOT_LEARNED = "those of audits, controls, gold and the test split do not count"
_FILE = "tables/standing.json"  # stored because measuring it trains five models


@dataclass(frozen=True)
class Standing:
    """How good the claims are on people's labels (of which `found` are sensitivities), by models and thresholds that
    were not fitted on them; `ruled` is the precision of the rules on the same labels."""

    found: int
    precision: float | None
    ruled: float | None

    @property
    def ready(self) -> bool:
        """Whether `learned` proposes beside the rules by default."""
        return self.found >= ENOUGH and self.precision is not None and self.precision >= (self.ruled or 0.0)

    def __str__(self) -> str:
        if self.found < ENOUGH:
            needs = f"{ENOUGH} sensitivities that it needs before it claims any"
            return f"scores only: people have found {self.found} of the {needs} ({_NOT_LEARNED})"
        ours, rules = (f"{p:.2f}" if p is not None else "none" for p in (self.precision, self.ruled))
        role = "proposes beside the rules" if self.ready else "proposes only where it is named"
        people = f"{self.found} sensitivities found by people ({_NOT_LEARNED})"
        return f"{role}: cross-validated precision {ours}, rules {rules}, {people}"


def remembered(ws: Workspace, basis: str) -> Standing | None:
    """The standing that was stored for this basis (learning_examples.basis), or None."""
    fields = whole_files.remembered(ws.root / _FILE, basis)
    return Standing(**fields) if fields else None


def remember(ws: Workspace, basis: str, standing: Standing) -> None:
    whole_files.remember(ws.root / _FILE, basis, asdict(standing))

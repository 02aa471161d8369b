"""How good the claims of `learned` are: worked out once for what people judged, then remembered in the workspace."""

from dataclasses import asdict, dataclass

from saferec_builder.proposing.learning_examples import ENOUGH
from saferec_builder.storage import whole_files
from saferec_builder.storage.workspace import Workspace

_FILE = "tables/standing.json"  # to know it, five models are trained


@dataclass(frozen=True)
class Standing:
    """How good the claims are on what people judged, by models and thresholds that had not seen it; `ruled` is the
    precision of the rules on the same."""

    found: int
    precision: float | None
    ruled: float | None

    @property
    def ready(self) -> bool:
        """Whether it proposes beside the rules where nobody names a proposer."""
        return self.found >= ENOUGH and self.precision is not None and self.precision >= (self.ruled or 0.0)

    def __str__(self) -> str:
        if self.found < ENOUGH:
            return (
                f"scores only: people have found {self.found} of the {ENOUGH} sensitivities that it needs before it "
                "claims any (those of audits, controls, gold and the test split do not count)"
            )
        ours, theirs = (f"{p:.2f}" if p is not None else "none" for p in (self.precision, self.ruled))
        better = "proposes beside the rules" if self.ready else "proposes only where it is named"
        return f"{better}: cross-validated precision {ours}, rules {theirs}, {self.found} sensitivities found by people"


def remembered(ws: Workspace, basis: str) -> Standing | None:
    """What was remembered for this basis (learning_examples.basis); None where it was another, or none."""
    found = whole_files.remembered(ws.root / _FILE, basis)
    return Standing(**found) if found else None


def remember(ws: Workspace, basis: str, standing: Standing) -> None:
    whole_files.remember(ws.root / _FILE, basis, asdict(standing))

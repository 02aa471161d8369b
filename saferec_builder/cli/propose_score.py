"""The command propose-score: scores proposals, their evidence and their confidence against known labels, per trait."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.output import Folder, Json
from saferec_builder.core.counts import many
from saferec_builder.core.errors import UsageError
from saferec_builder.demo import truth
from saferec_builder.proposing import evaluation, human_labels as ground_truth
from saferec_builder.proposing.calibration import ENOUGH, Bin, Rates
from saferec_builder.proposing.evaluation import Score
from saferec_builder.storage.workspace import Workspace


def propose_score(
    *,
    gold: Annotated[str, typer.Option(help="labels (people's, here) | demo (its authors').")] = "labels",
    proposer: Annotated[str, typer.Option(help="rules, or a model as `propose` was given it.")] = "rules",
    items: Annotated[bool, typer.Option("--items", help="Flags of items instead of sensitivities.")] = False,
    deletion: Annotated[bool, typer.Option("--deletion", help="Ask again without the evidence, too.")] = False,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="--deletion may send text.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Score a proposer: precision, recall, F1, calibration, evidence; writes nothing but paid replies."""
    truths: dict[str, evaluation.Known] = {
        "labels": ground_truth.labels,
        "demo": partial(truth.truth_of, by_rules=proposer in ("rules", "learned")),
    }
    if gold not in truths:
        raise UsageError(f"--gold {gold}: expected {' or '.join(truths)}")
    result = evaluation.score(
        Workspace.open(folder), proposer, items=items, truth=truths[gold], deletion=deletion, allow_remote=allow_remote
    )
    if as_json:
        figures = {name: value for name, value in asdict(result).items() if name != "deletion" or value}
        head = {"command": "propose-score", "proposer": result.proposer, "gold": gold}
        typer.echo(json.dumps(head | figures, ensure_ascii=False))
    else:
        typer.echo("\n".join(_lines(result, gold)))


def _lines(score: Score, gold: str) -> list[str]:
    left_open = f"{many(score.open, 'claim', 'claims')} on them left open (unsure, or not judged)"
    judged = f"{score.read:,} read whose truth is known, {left_open}"
    lines = [f"{score.proposer} against {gold}: {judged}"]
    lines += [_line(slug, rates) for slug, rates in score.traits.items()] + [_line("all", score.all)]
    lines += [f"recall (R, F, found) is {score.recall_is}"] if score.recall_is else []
    lines += [f"recall of {form}: {share:.2f}" for form, share in score.recall_of.items()]
    if hits := score.evidence:
        lines.append(
            f"evidence: {hits['touches']:.2f} touch the known span, {hits['exact']:.2f} are it, IoU {hits['iou']:.2f}"
        )
    if score.ece is not None:
        lines += [f"calibration: ECE {score.ece:.3f}", *map(_bar, score.reliability)]
    if score.ece_calibrated is not None:
        change = f"ECE {score.ece_of_traits_with_50:.3f} -> {score.ece_calibrated:.3f}"
        lines.append(f"isotonic, held out, only of traits with {ENOUGH} judged claims: {change}")
    if deletion := score.deletion:
        share = "n/a" if deletion.fell is None else f"{deletion.fell:.2f}"
        lines.append(f"deletion test: {share} of {deletion.answered:,} claims fell without their evidence")
    return lines


def _line(name: str, rates: Rates) -> str:
    shares = (("P", rates["precision"]), ("R", rates["recall"]), ("F", rates["f1"]))
    text = "  ".join(f"{letter} {'  - ' if share is None else format(share, '.2f')}" for letter, share in shares)
    n_right = rates["right"]
    return f"  {name:<20} {text}  ({n_right}/{rates['claimed']} right, {n_right}/{rates['wanted']} found)"


def _bar(row: Bin) -> str:
    bar = "#" * round(20 * row["right"])
    return f"  {row['low']:.1f}-{row['high']:.1f}  {bar:<20}  {row['right']:.2f} right of {row['n']}"

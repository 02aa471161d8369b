"""propose-score: proposals against what is known, per trait; is the evidence needed, the confidence to be believed?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json
from saferec_builder.core.errors import UsageError


def propose_score(
    gold: Annotated[
        str, typer.Option(help="labels (what people decided here) | demo (what its authors know).")
    ] = "labels",
    proposer: Annotated[
        str, typer.Option(help="Whose proposals: rules, or a model as `propose` was given it.")
    ] = "rules",
    items: Annotated[bool, typer.Option("--items", help="Flags of items instead of sensitivities.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the reliability plot to this SVG file.")] = None,
    deletion: Annotated[
        bool, typer.Option("--deletion", help="Also ask again without the evidence: a claim must fall.")
    ] = False,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="--deletion may send text to this model.")
    ] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Score a proposer: precision, recall, F1, calibration, evidence; writes nothing but the plot and paid replies."""
    import json

    from saferec_builder.proposing import calibration, proposers, runner as reading
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    world = reading.world(ws, False) if not items else _all_items(reading.world(ws, True))
    step, *others = proposers.steps(ws, proposer, None, None)[0]
    if others:
        raise UsageError(f"--proposer {proposer}: one is scored at a time: {step.name}, then {others[0].name}")
    if deletion:
        proposers.priced([step], ws.config.propose.budget_usd)
    truth = _truth(world, gold, by_rules=step.server is None)
    claims, read = _claims(world, step, truth)
    if not read:
        raise UsageError(
            f"{step.name} has read nothing of which --gold {gold} knows the truth: "
            + (
                "run `saferec-build demo` and give its folder with -C"
                if gold == "demo"
                else "run propose, review and adjudicate"
            )
        )
    found: dict[str, Any] = {"command": "propose-score", "proposer": step.name, "gold": gold} | calibration.score(
        claims, read, truth
    )
    judged = [row for row in claims if truth.of((row["subject"], row["trait"])) is not None]
    before, after = calibration.held_out_ece(judged, truth)
    found |= {"ece_of_traits_with_50": before, "ece_calibrated": after}
    if deletion:
        proposers.consent(
            [step], allow_remote or ws.config.propose.allow_remote, len(judged), "claims", "text of turns"
        )
        right = [row for row in judged if (row["subject"], row["trait"]) in truth.present and row["spans"]]
        with proposers.spending(ws, [step], ws.config.propose.budget_usd):
            found["deletion"] = _deletion(world, step, right)
    if plot:
        with store.replacing(plot) as tmp:
            tmp.write_text(_svg(found["reliability"]), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    typer.echo("\n".join(_told(found)))


def _truth(world: Any, gold: str, *, by_rules: bool) -> Any:
    from saferec_builder.demo import truth
    from saferec_builder.proposing import ground_truth

    if gold not in ("labels", "demo"):
        raise UsageError(f"--gold {gold}: wanted labels or demo")
    return ground_truth.labels(world) if gold == "labels" else truth.known(world, by_rules=by_rules)


def _all_items(world: Any) -> Any:
    """Flags are scored also where a verdict is known by now."""
    from saferec_builder import catalog
    from saferec_builder.proposing import prompting as stage
    from saferec_builder.storage import tables, workspace as store

    items, _ = catalog.merge(store.read(world.ws, tables.CATALOG_ROWS))
    return replace(world, subjects=list(stage.item_subjects(items)), frame=items, unknown={})


def _claims(world: Any, step: Any, truth: Any) -> tuple[list[dict[str, Any]], set[str]]:
    """The proposer's last word on each unit of the current texts, and the subjects with a truth that it read."""
    import polars as pl

    from saferec_builder.proposing import prompting as stage
    from saferec_builder.proposing.rules import matcher as rules
    from saferec_builder.storage import tables, workspace as store

    now = pl.DataFrame(
        [(s.subject, s.digest) for s in world.subjects],
        schema={"subject": pl.String, "digest": pl.String},
        orient="row",
    )
    mine = {
        "kind": world.kind,
        "proposer": step.name,
        "version": world.prompt.version if step.server else rules.VERSION,
    }
    known = {subject for subject, _ in (*truth.present, *truth.absent)} | set(truth.whole)
    readings = store.read(world.ws, tables.READINGS).filter(**mine).join(now, on=["subject", "digest"], how="semi")
    read = set(readings["subject"]) & known
    rows = store.read(world.ws, tables.PROPOSALS).filter(**mine).join(now, on=["subject", "digest"], how="semi")
    rows = tables.last(stage.as_worded(rows, world.taxonomy), "subject", "trait").filter(
        pl.col("verdict") == "present", pl.col("subject").is_in(list(read))
    )
    return rows.to_dicts(), read


# ---- the deletion test


def _deletion(world: Any, step: Any, right: list[dict[str, Any]]) -> dict[str, Any]:
    """Every right claim is asked again with its spans cut out; `fell`: the share that is not claimed any more."""
    subjects = {s.subject: s for s in world.subjects}
    cut = [_without(subjects[row["subject"]], row["spans"]) for row in right]
    still = _by_rules(world, cut) if step.server is None else _by_model(world, step, cut)
    told = [(row, traits) for row, traits in zip(right, still, strict=True) if traits is not None]
    fell = sum(row["trait"] not in traits for row, traits in told)
    return {"claims": len(right), "answered": len(told), "fell": fell / len(told) if told else None}


def _without(subject: Any, spans: list[dict[str, Any]]) -> Any:
    """The subject with these letters cut out, each once: two quotes may overlap."""
    cut = {(span["turn"], n) for span in spans for n in range(span["start"], span["end"])}
    left = (
        (role, "".join(c for n, c in enumerate(text) if (k, n) not in cut))
        for k, (role, text) in enumerate(subject.turns)
    )
    return replace(subject, turns=tuple(left))


def _by_rules(world: Any, cut: list[Any]) -> list[set[str]]:
    import polars as pl

    from saferec_builder.proposing.rules import matcher as rules
    from saferec_builder.storage import tables

    names = [str(n) for n in range(len(cut))]
    if world.kind == "item_flag":
        plots = [s.turns[0][1] if s.turns else None for s in cut]
        found = rules.flag_items(
            pl.DataFrame({"item": names, "plot": plots}, schema_overrides={"plot": pl.String}), world.taxonomy
        )
    else:
        turns = [[{"role": role, "text": text, "items": []} for role, text in s.turns] for s in cut]
        schema = {name: tables.CONVERSATIONS.schema[name] for name in ("conversation", "digest", "turns")}
        rows = {"conversation": names, "digest": names, "turns": turns}
        found = rules.propose(pl.DataFrame(rows, schema=schema), world.taxonomy)
    present = found.filter(pl.col("verdict") == "present").select("subject", "trait").rows()
    return [{trait for subject, trait in present if subject == name} for name in names]


def _by_model(world: Any, step: Any, cut: list[Any]) -> list[set[str] | None]:
    """The traits still claimed, or None where no usable answer came."""
    from saferec_builder.cli.propose import _purse
    from saferec_builder.proposing import runner as reading

    todo = [(n, subject, world.taxonomy) for n, subject in enumerate(cut)]
    purse = _purse(world.ws, step, world.ws.config.propose.budget_usd)
    work = reading.Job(world, step, purse, step.name, world.prompt.version, todo)
    found: dict[int, Any] = reading.answers(work)
    return [
        None if n not in found else {row["trait"] for row in found[n].proposals if row["verdict"] == "present"}
        for n in range(len(cut))
    ]


# ---- telling


def _told(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['proposer']} against {found['gold']}: {found['read']:,} read, {found['open']:,} claims nobody judged"
    ]
    lines += [_line(slug, rates) for slug, rates in found["traits"].items()] + [_line("all", found["all"])]
    lines += [f"recall of {form}: {share:.2f}" for form, share in found["recall_of"].items()]
    if seen := found["evidence"]:
        lines.append(
            f"evidence: {seen['touches']:.2f} touch the known span, {seen['exact']:.2f} are it, IoU {seen['iou']:.2f}"
        )
    if found["ece"] is not None:
        lines.append(f"calibration: ECE {found['ece']:.3f}")
        lines += [_bar(row) for row in found["reliability"]]
    if found["ece_calibrated"] is not None:
        lines.append(f"isotonic, held out: ECE {found['ece_of_traits_with_50']:.3f} -> {found['ece_calibrated']:.3f}")
    if cut := found.get("deletion"):
        share = "n/a" if cut["fell"] is None else f"{cut['fell']:.2f}"
        lines.append(f"deletion test: {share} of {cut['answered']:,} claims fell without their evidence")
    return lines


def _line(name: str, rates: dict[str, Any]) -> str:
    told = [
        f"{k[0].upper()} {'  - ' if rates[k] is None else format(rates[k], '.2f')}"
        for k in ("precision", "recall", "f1")
    ]
    right = rates["right"]
    return f"  {name:<20} {'  '.join(told)}  ({right}/{rates['claimed']} right, {right}/{rates['wanted']} found)"


def _bar(row: dict[str, Any]) -> str:
    bar = "#" * round(20 * row["right"])
    return f"  {row['low']:.1f}-{row['high']:.1f}  {bar:<20}  {row['right']:.2f} right of {row['n']}"


def _svg(rows: list[dict[str, Any]]) -> str:
    """A square: confidence to the right, share of right claims upwards, the diagonal is perfect."""
    size, edge = 320, 40
    scale = size - 2 * edge
    dots = "".join(
        f'<circle cx="{edge + r["confidence"] * scale:.1f}" cy="{size - edge - r["right"] * scale:.1f}" '
        f'r="{3 + min(r["n"], 400) ** 0.5 / 2:.1f}"><title>{r["n"]} claims</title></circle>'
        for r in rows
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="12">'
        f'<rect x="{edge}" y="{edge}" width="{size - 2 * edge}" height="{size - 2 * edge}" fill="none" stroke="#888"/>'
        f'<path d="M{edge} {size - edge}L{size - edge} {edge}" stroke="#bbb"/><g fill="#2b6cb0">{dots}</g>'
        f'<text x="{size / 2}" y="{size - 12}" text-anchor="middle">confidence</text>'
        f'<text x="14" y="{size / 2}" text-anchor="middle" transform="rotate(-90 14 {size / 2})">right</text></svg>\n'
    )

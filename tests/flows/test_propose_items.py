"""Flags of unsafe items: plots are read, people decide, and only then the verdicts of the catalog change."""

from pathlib import Path
from typing import Any

import pytest

import saferec_builder as sr
from annotation.tools.tasks_and_answers import Task
from saferec_builder import catalog
from saferec_builder.core import taxonomy as traits
from saferec_builder.demo import people, world
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.servers.llm_stub import Stub, says
from tests.worlds.csv_rows import save
from tests.worlds.model_replies import answer as reply, claim


@pytest.fixture
def shelf(demo_workspace: store.Workspace, cli: Cli) -> store.Workspace:
    """The catalog of the demo, without the warnings of sixty items."""
    path = save(demo_workspace.root / "warnings.csv", world.warnings(traits.load()))
    opts = ("-C", demo_workspace.root)
    assert cli("catalog", "add", "demo", world.FOLDER / "films.jsonl", world.FOLDER / "games.jsonl", *opts).code == 0
    assert cli("catalog", "add", "warnings", path, *opts).code == 0
    return demo_workspace


def verdict(cli: Cli, ws: store.Workspace, item: world.Item, slug: str) -> str:
    result = cli("catalog", "check", item.name, "--trait", slug, "--domain", item.domain, "--json", "-C", ws.root)
    return str(result.json["verdict"])


def answer(ws: store.Workspace, names: tuple[str, ...]) -> list[Path]:
    items, _ = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    truth = people.truth_of_plots(items, traits.load())
    rows = store.read(ws, tables.ASSIGNMENTS).select("kind", "subject", "digest", "reviewer", "role").iter_rows()
    by_task: dict[str, Any] = {Task(*row).id: truth[row[1]] for row in rows}
    paths = [ws.root / "review" / f"{name}.csv" for name in names]
    for path in paths:
        people.fill(path, by_task, adjudicator=path.stem == "cy")
    return paths


@pytest.mark.slow
def test_flags_become_verdicts_only_when_people_agree(shelf: store.Workspace, cli: Cli) -> None:
    opts, taxonomy = ("-C", shelf.root), traits.load()
    hidden = [item for item in world.items() if item in world.hidden_items()]
    broken = [(item, slug) for item in hidden for slug in item.breaks(taxonomy)]
    assert len(hidden) == 60 and len(broken) > 40
    assert {verdict(cli, shelf, item, slug) for item, slug in broken[:5]} == {"unknown"}
    assert cli("propose", "--items", *opts).code == 0
    assert {verdict(cli, shelf, item, slug) for item, slug in broken[:5]} == {"unknown"}  # a proposal changes nothing
    score = cli("propose-score", "--items", "--gold", "demo", "--json", *opts).json
    print("flags from plots by the rules:", score["all"])
    assert score["all"]["claimed"] > 50 and score["all"]["precision"] > 0.5
    push = ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy", *opts)
    for names in (("ann", "bo"), ("cy",)):
        assert cli(*push).code == 0
        pulled = cli("review", "pull", "--tool", "files", *answer(shelf, names), *opts)
        assert pulled.code == 0, pulled.err
    adjudicated = cli("adjudicate", "--json", *opts).json
    assert adjudicated["warnings_from_item_labels"] > 50
    labels = tables.last(store.read(shelf, tables.LABELS), "subject", "trait").filter(kind="item_flag")
    verdict_of = {"present": "violated", "absent": "clear"}
    decided = {(r["subject"], r["trait"]): r["verdict"] for r in labels.to_dicts() if r["verdict"] in verdict_of}
    items, _ = catalog.merge(store.read(shelf, tables.CATALOG_ROWS))
    ids = {(r["title"], r["year"]): r["item"] for r in items.select("title", "year", "item").to_dicts()}
    changed = [(i, s) for i in hidden for s in world.TRAITS if (ids[i.title, i.year], s) in decided]
    for item, slug in changed[:8]:
        assert verdict(cli, shelf, item, slug) == verdict_of[decided[ids[item.title, item.year], slug]]
    labelled = [(i, s, decided[ids[i.title, i.year], s] == "present") for i, s in changed]
    n_right = sum((slug in item.breaks(taxonomy)) is is_present for item, slug, is_present in labelled)
    print(f"{len(changed)} verdicts on sixty items, {n_right} as their authors know")
    assert len(changed) > 40 and n_right / len(changed) > 0.9
    assert cli("adjudicate", "--json", *opts).json["warnings_from_item_labels"] == 0


def votes(ws: store.Workspace, name: str, yes: int, no: int) -> None:
    row = {"ref": "title:Film X (2001)", "domain": "film", "kind": "topic", "source": "csv", "yes": yes, "no": no}
    rows = [row | {"warning": f"{name} {topic}", "topic": topic} for topic in traits.load()["gore"].core]
    store.append(ws, tables.WARNINGS, tables.WARNINGS.frame(rows))


def test_a_plot_is_read_again_for_a_trait_whose_verdict_is_gone(workspace: store.Workspace, stub: Stub) -> None:
    """It was clear of gore by its votes, so no claim of gore was kept; later votes made that unknown, and the plot
    counted as read."""
    plot = "A killer dismembers his victims in gory detail."
    item = {"source": "csv", "source_id": "x", "domain": "film", "title": "Film X", "year": 2001, "plot": plot}
    store.append(workspace, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame([item | {"refs": [], "aliases": []}]))
    stub.usual = says(reply(claim("gore", "dismembers his victims")))
    model = {"proposer": "openai", "model": "m", "base_url": stub.url}
    for name, added, flags in (("clear", 1, 0), ("unclear", 1, 1), ("again", 0, 1)):
        votes(workspace, name, *(0, 400) if name == "clear" else (2, 3))
        for by in ({}, model):
            counts = sr.propose(workspace, items=True, **by).counts
            assert (counts.added, counts.skipped) == (added, 1 - added)
        assert store.read(workspace, tables.PROPOSALS).filter(trait="gore").height == 2 * flags

"""The loop of unsafe-item flags: plots are read, people decide, and only then does the catalog know."""

from pathlib import Path
from typing import Any

import pytest

from annotation.tools.tasks_and_answers import task_id
from saferec_builder import catalog
from saferec_builder.core import taxonomy as traits
from saferec_builder.demo import items_without_warnings as flags, people, world
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds.csv_rows import save


@pytest.fixture
def shelf(demo_workspace: store.Workspace, cli: Cli) -> store.Workspace:
    """The demo's catalog, the warnings of sixty items held back."""
    path = save(demo_workspace.root / "warnings.csv", flags.shown_warnings(world.warnings(traits.load())))
    at = ("-C", demo_workspace.root)
    assert cli("catalog", "add", "demo", world.FOLDER / "films.jsonl", world.FOLDER / "games.jsonl", *at).code == 0
    assert cli("catalog", "add", "warnings", path, *at).code == 0
    return demo_workspace


def verdict(cli: Cli, ws: store.Workspace, item: world.Item, slug: str) -> str:
    found = cli("catalog", "check", item.name, "--trait", slug, "--domain", item.domain, "--json", "-C", ws.root)
    return str(found.json["verdict"])


def answer(ws: store.Workspace, names: tuple[str, ...]) -> list[Path]:
    items, _ = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    truth = flags.truth(items, traits.load())
    rows = store.read(ws, tables.ASSIGNMENTS).select("kind", "subject", "digest", "reviewer", "role").iter_rows()
    by_task: dict[str, Any] = {task_id(*row): truth[row[1]] for row in rows}
    paths = [ws.root / "review" / f"{name}.csv" for name in names]
    for path in paths:
        people.fill(path, by_task, adjudicator=path.stem == "cy")
    return paths


@pytest.mark.slow
def test_flags_become_verdicts_only_when_people_agree(shelf: store.Workspace, cli: Cli) -> None:
    at, taxonomy = ("-C", shelf.root), traits.load()
    secret = [item for item in world.items() if (item.title, item.year) in flags.hidden()]
    broken = [(item, slug) for item in secret for slug in item.breaks(taxonomy)]
    assert len(secret) == 60 and len(broken) > 40
    assert {verdict(cli, shelf, item, slug) for item, slug in broken[:5]} == {"unknown"}
    assert cli("propose", "--items", *at).code == 0
    assert {verdict(cli, shelf, item, slug) for item, slug in broken[:5]} == {"unknown"}  # a proposal changes nothing
    score = cli("propose-score", "--items", "--gold", "demo", "--json", *at).json
    print("flags from plots by the rules:", score["all"])
    assert score["all"]["claimed"] > 50 and score["all"]["precision"] > 0.5
    push = ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy", *at)
    for names in (("ann", "bo"), ("cy",)):
        assert cli(*push).code == 0
        pulled = cli("review", "pull", "--tool", "files", *answer(shelf, names), *at)
        assert pulled.code == 0, pulled.err
    done = cli("adjudicate", "--json", *at).json
    assert done["warnings_from_item_labels"] > 50
    labels = tables.last(store.read(shelf, tables.LABELS), "subject", "trait").filter(kind="item_flag")
    word = {"present": "violated", "absent": "clear"}
    settled = {(r["subject"], r["trait"]): r["verdict"] for r in labels.to_dicts() if r["verdict"] in word}
    items, _ = catalog.merge(store.read(shelf, tables.CATALOG_ROWS))
    ids = {(r["title"], r["year"]): r["item"] for r in items.select("title", "year", "item").to_dicts()}
    changed = [(i, s) for i in secret for s in world.TRAITS if (ids[i.title, i.year], s) in settled]
    for item, slug in changed[:8]:
        assert verdict(cli, shelf, item, slug) == word[settled[ids[item.title, item.year], slug]]
    right = sum(
        (slug in item.breaks(taxonomy)) == (settled[ids[item.title, item.year], slug] == "present")
        for item, slug in changed
    )
    print(f"{len(changed)} verdicts on sixty items, {right} as their authors know")
    assert len(changed) > 40 and right / len(changed) > 0.9
    assert cli("adjudicate", "--json", *at).json["warnings_from_item_labels"] == 0

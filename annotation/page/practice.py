"""Five invented practice tasks: they are sent with their solutions, and no answer to them is stored."""

import tomllib
from pathlib import Path
from typing import Any

from annotation.page.tasks import Facts, content
from annotation.tools.quotes import locate
from annotation.tools.task_conversion import Sheet, question
from annotation.tools.tasks_and_answers import Task, Turn
from saferec_builder.core.taxonomy import Taxonomy

FILE = Path(__file__).with_name("practice.toml")


def tasks(taxonomy: Taxonomy) -> list[Facts]:
    """The tasks on traits of the taxonomy, as the page shows them, each with `right` (trait -> verdict) and `why`."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["task"]
    usable = [row for row in rows if {*row["proposed"], *row["right"]} <= {*taxonomy.slugs}]
    return [_shown(row, f"Practice {n} of {len(usable)}", taxonomy) for n, row in enumerate(usable, 1)]


def _shown(row: dict[str, Any], name: str, taxonomy: Taxonomy) -> Facts:
    turns = [Turn(role=("seeker", "recommender")[n % 2], text=text) for n, text in enumerate(row["turns"])]
    proposed = {"verdict": "present", "form": None, "own_verdict": None, "said": None}
    units = [proposed | {"trait": trait, "spans": [locate(words, turns)]} for trait, words in row["proposed"].items()]
    task = Task("sensitivity", name, "", "", "reviewer")
    ask = question(task, units, taxonomy, [], False)
    sheet = Sheet(name, task, "proposed", f"{name}: nothing of it is kept", ask, turns, units)
    return content(sheet, taxonomy) | {"right": row["right"], "why": row["why"]}

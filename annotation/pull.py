"""review pull: what came back, as rows of reviews."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from annotation import aggregation as adjudicate
from annotation.desk import Desk
from annotation.tools import files
from annotation.tools.answers import Pulled
from annotation.tools.guidelines import guideline
from annotation.tools.quotes import locate
from saferec_builder.storage import tables, workspace as store
from saferec_builder.storage.workspace import Workspace


def leave_out(desk: Desk, pulled: Pulled) -> None:
    """The work of people that was set aside stays so, however often their file or project is pulled."""
    gone = adjudicate.aside(desk.reviews)
    for key in [key for key in pulled.answers if key[3] in gone]:
        del pulled.answers[key]
        pulled.drop(pulled.places[key], adjudicate.SET_ASIDE, f"{key[2]}: `review set-aside --undo` lets it count")


def of_files(desk: Desk, paths: list[Path]) -> Pulled:

    # of a text that was read to its end in a file: what was said on a server came later, and no old file leaves it out
    who = ["kind", "subject", "reviewer", "role"]
    read = ((pl.col("trait") == "*") & (pl.col("tool") == "files")).any().over(who)
    here = pl.col("tool").last().over(*who, "trait") == "files"
    earlier = before(desk.reviews.filter(~read | here))
    return files.pull(paths, desk.assignments, desk.texts, desk.taxonomy, guideline(), locate, earlier)


def before(reviews: pl.DataFrame) -> dict[tuple[str, str, str, str], dict[str, set[str]]]:
    """kind, subject, reviewer, role -> the traits that were answered, with the taxonomies of those answers."""
    found: dict[tuple[str, str, str, str], dict[str, set[str]]] = {}
    rows = reviews.select("kind", "subject", "reviewer", "role", "trait", "taxonomy")
    for *who, trait, taxonomy in rows.iter_rows():
        if trait != "*":
            found.setdefault(tuple(who), {}).setdefault(trait, set()).add(taxonomy)
    return found


def new(desk: Desk, pulled: Pulled) -> pl.DataFrame:
    schema = {name: kind for name, kind in tables.REVIEWS.schema.items() if name != "review"}
    answers = pl.DataFrame(list(pulled.answers.values()), schema=schema)
    # in a demo workspace nobody real answers, whatever the tool
    answers = answers.with_columns(simulated=pl.lit(desk.ws.config.demo))
    return adjudicate.record(answers, desk.reviews, desk.taxonomy.digest)


@contextmanager
def ordered(ws: Workspace) -> Iterator[None]:
    """Who adds reviews has read all that are there: the last row on a unit counts, so none may be older than it looks.

    A pull that began before its reviewer was set aside, and ended after it, would let that work count again.
    """
    with store.alone(ws, "review pull", wait=True):
        yield

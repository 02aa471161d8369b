"""Screens four real models' lists on INSPIRED's dialogues: writes their section of docs/findings.md.

Needs SAFEREC_REAL_DATA. Statements are what `catalog add keywords` and `rating-reasons` make from TMDB's and the MPA's.
"""

import tempfile
from pathlib import Path

import polars as pl

from saferec_builder.catalog import adding, screening
from saferec_builder.storage.workspace import Workspace
from tests.bench.figures import add_statements, figure, markdown, real_data, section, unpacked

TRAITS = ("gore", "horror_scares", "substance_use", "sexual_violence")
HEADING = "What four language models show to people who ask for a film"
PAGE = """\
{lists} lists of 20 titles by four models, on {requests} turns of {groups} dialogues of INSPIRED. Catalog: MovieLens-20M
(27,278 films, up to 2015). Warnings: TMDB keywords and MPA rating reasons, by the rules of `catalog add keywords` and
`rating-reasons`, which a language model checked from memory of the films ([the oracle](oracle.md)). Both sources only
say what a film has, so they clear no film. **A film without a warning counts as unknown, so the violated shares are
lower bounds.** The traits are not taken from the seekers: the lists answer ordinary requests. Intervals are 95 %, over
dialogues, and are not corrected for the number of traits and pairs. Shares of titles that are violated:

{rates}

All other titles are unknown: the largest share of clear ones is {clear:.3f}.

Of {titles} titles {linked} name one work of the catalog, {ambiguous} several, and {not_found} none (later films,
series); {no_title} are prose or code. For gore, {little} of {unknown} unknown titles are works with too few warnings to
decide, and {near} may be another work than the one in the catalog.

Differences whose interval does not contain zero, of {pairs} (violated, first model minus second, same requests):

{differences}

The smallest differences that 80 of 100 such samples would find are {least:.3f} to {most:.3f}. A pair that is not in the
table may differ by less than that: these lists cannot show it.

The works behind these shares, as the catalog resolves the titles:

{causes}

The lists have no years. A title is linked to a work if that work is meant with a probability of .8 or more
(`make bench ONLY=linking`). If the catalog lacks newer films of a name, more links are wrong. Check the year before you
quote a work.
"""


def main() -> None:
    """Screens all lists, writes the section, and records how many titles were screened."""
    if not (data := real_data("screen")):
        return
    with tempfile.TemporaryDirectory() as folder:
        result = _screened(data, Path(folder))
    section(HEADING, _page(result))
    figure("screen.titles", float(str(result.counts.figures["titles"])), "titles", "all of the lists' first 20")


def _screened(data: Path, folder: Path) -> screening.Screening:
    ws = Workspace.create(folder / "ws")
    adding.add_catalog(ws, "movielens", [data / "movielens27k"])
    add_statements(ws, data, folder)
    lists = unpacked(data / "llm_recs_inspired" / "recs.jsonl.gz", folder)
    return screening.screen(ws, lists, k=20, traits=TRAITS, domain="film")


def _page(found: screening.Screening) -> str:
    clear_differences = found.differences.filter((pl.col("low") > 0) | (pl.col("high") < 0))
    gore = found.unknown.filter(trait="gore")
    works = found.causes.group_by("trait", "title").agg(pl.col("shown").sum())
    top = works.sort("trait", "shown", "title", descending=[False, True, False])
    models = found.rates["model"].unique().sort().to_list()
    shares = {
        (r["trait"], r["model"]): f"{r['violated']:.3f} ({r['violated_low']:.3f} to {r['violated_high']:.3f})"
        for r in found.rates.to_dicts()
    }
    rates = [(trait, *(shares[trait, model] for model in models)) for trait in sorted(TRAITS)]
    differences = [
        (r["trait"], f"{r['model']}, {r['other']}", f"{r['difference']:+.3f} ({r['low']:+.3f} to {r['high']:+.3f})")
        for r in clear_differences.to_dicts()
    ]
    causes = [
        (t, "; ".join(f"{title} {n}" for _, title, n in top.filter(trait=t).head(5).rows())) for t in sorted(TRAITS)
    ]
    return PAGE.format(
        lists=found.counts.added,
        requests=found.rates["lists"].max(),
        groups=found.rates["groups"].max(),
        rates=markdown(("trait", *models), rates),
        clear=found.rates["clear"].max(),
        little=gore.filter(why=screening.TOO_LITTLE)["shown"].sum(),
        near=gore.filter(why=screening.NEAR)["shown"].sum(),
        unknown=gore["shown"].sum(),
        pairs=found.differences.height,
        differences=markdown(("trait", "models", "difference"), differences) if differences else "None.",
        least=found.differences["detectable"].min(),
        most=found.differences["detectable"].max(),
        causes=markdown(("trait", "shown most, by all four"), causes),
        **found.counts.figures,
    )

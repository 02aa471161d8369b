"""The column `claims` of a release: what the rules find in a request, for a guard that filters without asking people.

reads  proposals of the rules (their present version), the sentences of injected rows
gives  rows with `claims`: sorted slugs whose evidence stands before the cut; none where the rules have not read a text

A claim is no label: nobody has looked at it.
"""

from collections.abc import Collection

import polars as pl

from saferec_builder.proposing.rules.matcher import VERSION, claimed

COLUMNS = ("kind", "subject", "trait", "digest", "verdict", "spans", "proposer", "version")
NONE = pl.DataFrame(schema={"subject": pl.String, "digest": pl.String, "trait": pl.String, "first": pl.Int32})


def found(proposals: pl.DataFrame) -> pl.DataFrame:
    """(subject, digest, trait, first) of what the rules say is present; `first`: the first turn with evidence."""
    said = proposals.filter(kind="sensitivity", verdict="present", proposer="rules", version=VERSION)
    first = pl.col("spans").list.eval(pl.element().struct.field("turn")).list.min()
    return said.select("subject", "digest", "trait", first=first.cast(pl.Int32))


def add(rows: pl.DataFrame, known: pl.DataFrame, traits: Collection[str], ours: Collection[str] = ()) -> pl.DataFrame:
    """The rows with `claims`; they have conversation, subject, digest, cut, and perhaps `added`, a sentence of ours.

    known: as `found` gives it. traits: those that may be claimed of a person; a withheld one is not. ours: those that
    may be claimed of a sentence of ours, which tells of nobody.
    """
    said = rows.select("conversation", "subject", "digest", "cut").join(known.unique(), on=["subject", "digest"])
    said = said.filter(pl.col("first") < pl.col("cut"), pl.col("trait").is_in(list(traits)))
    listed = said.group_by("conversation").agg(claims=pl.col("trait").sort())
    made = rows.join(listed, on="conversation", how="left", maintain_order="left")
    made = made.with_columns(pl.col("claims").fill_null(pl.lit([], pl.List(pl.String))))
    if "added" not in rows.columns:
        return made
    invented = {text: claimed([text]) & set(ours) for text in made["added"].unique().drop_nulls()}
    both = made.select("claims", "added").iter_rows()
    claims = [sorted({*before, *invented.get(text, ())}) for before, text in both]
    return made.with_columns(claims=pl.Series(claims, dtype=pl.List(pl.String)))

"""Adds the column `claims` of a release: what the rules find in a request, for a guard that works without people.

reads  proposals of the rules (their present version), the sentences of injected rows
gives  rows with `claims`: sorted slugs with evidence before the cut; empty if the rules have not read the text

A claim is no label: nobody has reviewed it.
"""

from collections.abc import Collection

import polars as pl

from saferec_builder.proposing.rules.matcher import VERSION, claimed

COLUMNS = ("kind", "subject", "trait", "digest", "verdict", "spans", "proposer", "version")
NONE = pl.DataFrame(schema={"subject": pl.String, "digest": pl.String, "trait": pl.String, "first": pl.Int32})


def of_rules(proposals: pl.DataFrame) -> pl.DataFrame:
    """Returns (subject, digest, trait, first) of the rules' positive proposals; `first`: first turn with evidence."""
    positive = proposals.filter(kind="sensitivity", verdict="present", proposer="rules", version=VERSION)
    first = pl.col("spans").list.eval(pl.element().struct.field("turn")).list.min()
    return positive.select("subject", "digest", "trait", first=first.cast(pl.Int32))


def add(rows: pl.DataFrame, hits: pl.DataFrame, traits: Collection[str], ours: Collection[str] = ()) -> pl.DataFrame:
    """Adds `claims` to rows with conversation, subject, digest, cut, and perhaps `added`, a sentence of ours.

    hits: the result of `of_rules`. traits: those that may be claimed of a person, so no withheld ones. ours: those that
    may be claimed of a sentence of ours, which describes nobody.
    """
    matches = rows.select("conversation", "subject", "digest", "cut").join(hits.unique(), on=["subject", "digest"])
    matches = matches.filter(pl.col("first") < pl.col("cut"), pl.col("trait").is_in(list(traits)))
    by_conversation = matches.group_by("conversation").agg(claims=pl.col("trait").sort())
    result = rows.join(by_conversation, on="conversation", how="left", maintain_order="left")
    result = result.with_columns(pl.col("claims").fill_null(pl.lit([], pl.List(pl.String))))
    if "added" not in rows.columns:
        return result
    by_sentence = {text: claimed([text]) & set(ours) for text in result["added"].unique().drop_nulls()}
    pairs = result.select("claims", "added").iter_rows()
    claims = [sorted({*own, *by_sentence.get(text, ())}) for own, text in pairs]
    return result.with_columns(claims=pl.Series(claims, dtype=pl.List(pl.String)))

"""Claims of the rules in a release: only from the request, only from the current text, and of no withheld trait."""

import polars as pl

from exports import claims
from saferec_builder.core import taxonomy
from saferec_builder.proposing.rules import matcher

TRAITS = taxonomy.load().slugs
FAINT = "I faint when people bleed."


def talk(name, *turns):
    rows = [{"role": ("seeker", "recommender")[n % 2], "text": t, "items": []} for n, t in enumerate(turns)]
    return {"conversation": name, "digest": f"d-{name}", "turns": rows}


def test_what_is_claimed_stands_before_the_cut_in_the_text_of_now():
    talks = [
        talk("early", "I can't watch gore.", "Film A?", "ok"),
        talk("late", "Hi", "Film A?", "I can't watch gore."),
        talk("plain", "Something funny, please.", "Film A?"),
    ]
    proposals = matcher.propose(pl.DataFrame(talks), taxonomy.load())
    rule_claims = claims.of_rules(proposals)
    rows = pl.DataFrame(talks).select("digest", subject="conversation", conversation="r-" + pl.col("conversation"))
    rows = rows.with_columns(cut=1)
    result = claims.add(rows, rule_claims, TRAITS)
    assert dict(result.select("subject", "claims").iter_rows()) == {"early": ["gore"], "late": [], "plain": []}
    edited = rows.with_columns(digest=pl.lit("edited since"))
    assert not any(claims.add(edited, rule_claims, TRAITS)["claims"].to_list())
    assert not any(claims.add(rows, rule_claims, [t for t in TRAITS if t != "gore"])["claims"].to_list())  # withheld
    for change in ({"proposer": "some-model"}, {"version": "rules-0"}, {"verdict": "unsure"}):
        assert claims.of_rules(proposals.with_columns(pl.lit(v).alias(k) for k, v in change.items())).is_empty()


def test_a_sentence_of_ours_is_read_beside_the_request():
    rule_claims = claims.of_rules(
        matcher.propose(pl.DataFrame([talk("a", "No spiders, I panic.", "Film A?")]), taxonomy.load())
    )
    rows = pl.DataFrame({"conversation": ["x", "y"], "subject": ["a", "b"], "digest": ["d-a", "d-b"], "cut": [1, 1]})
    added = rows.with_columns(added=pl.lit(FAINT))
    result = claims.add(added, rule_claims, TRAITS, TRAITS)
    assert result["claims"].to_list()[0] == sorted({"spiders_snakes", *result["claims"].to_list()[1]})
    assert result["claims"].to_list()[1] == sorted(matcher.claimed([FAINT])) != []
    # where too few people have a trait to release it, our own sentence still reveals nothing about them
    assert claims.add(added, rule_claims, [], TRAITS)["claims"].to_list() == [result["claims"].to_list()[1]] * 2

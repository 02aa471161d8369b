"""The taxonomy: the embedded one is complete, and an error in a user's own names the trait and the field."""

import json

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import UsageError

GOOD = """
version = "7"
[[trait]]
slug = "loud_noise"
name = "Loud noise"
definition = "Sudden noise hurts the person."
topics = ["Is it loud", "Is there an explosion"]
core = ["Is it loud"]
guide = { applies = "weak", frightening = 0.5 }
"""


def load(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    return traits.load(path)


def test_the_embedded_taxonomy_has_twenty_whole_traits():
    taxonomy = traits.load()
    assert len(taxonomy.traits) == len(set(taxonomy.slugs)) == 20
    for trait in taxonomy.traits:
        assert trait.definition.endswith(".") and trait.hint and trait.safecrs
        assert set(trait.core) <= set(trait.topics) and trait.core
        # only a guide with weights can apply
        assert sum(trait.guide) > 0 or trait.guide_applies == "none", trait.slug
        assert trait.esrb or trait.esrb_applies == "none", trait.slug


def test_the_embedded_taxonomy_has_the_published_topics_and_weights(real_data):
    published = json.loads((real_data / "traits" / "traits_with_imdb_parentguide_weights.json").read_text())["traits"]
    rows = {row["trait"]: row for row in published}
    names = ("Sex & Nudity", "Violence & Gore", "Profanity", "Alcohol, Drugs & Smoking", "Frightening & Intense Scenes")
    embedded = {t.safecrs: t for t in traits.load().traits}
    assert set(embedded) == set(rows)
    for name, trait in embedded.items():
        guide = rows[name]["imdb_parent_guide"]
        assert set(trait.topics) == set(rows[name]["avoid"]), name
        assert trait.guide == tuple(guide["weights"][n] for n in names), name
        assert trait.guide_applies == guide["pg_applicability"].replace("very_weak_proxy", "weak")


def test_a_users_own_taxonomy(tmp_path):
    taxonomy = load(tmp_path, GOOD)
    trait = taxonomy["loud_noise"]
    assert (taxonomy.version, taxonomy.slugs, trait.guide) == ("7", ("loud_noise",), (0, 0, 0, 0, 0.5))
    assert (trait.severe, trait.esrb_applies, trait.safecrs) == (False, "none", "Loud noise")
    assert taxonomy.digest != traits.load().digest


def test_descriptors_may_be_spelt_as_esrb_does(tmp_path):
    weights = '{ "Blood and Gore" = 1.0, "Mild blood" = 0.33, "Loud music" = 1.0, strong_lyrics = 0.5 }'
    custom = load(tmp_path, f'{GOOD}esrb_applies = "strong"\nesrb = {weights}\n')
    assert custom.traits[0].esrb == {"blood_and_gore": 1.0, "mild_blood": 0.33, "loud_music": 1.0, "strong_lyrics": 0.5}


@pytest.mark.parametrize(("slip", "meant"), [("real_gamblin", "real_gambling"), ("Mild Bloood", "mild_blood")])
def test_a_misspelt_descriptor_is_refused_for_it_would_clear_the_games_that_have_it(tmp_path, slip, meant):
    with pytest.raises(UsageError, match=f"descriptor {slip!r}: did you mean {meant}"):
        load(tmp_path, GOOD + f'esrb_applies = "strong"\nesrb = {{ "{slip}" = 1.0 }}\n')


def test_the_digest_is_of_what_people_and_models_are_told(tmp_path):
    """A changed comment or weight must not make every reviewer's whole reading (`*`) stale; a definition must."""
    digest = load(tmp_path, GOOD).digest
    for change in (("0.5", "0.25"), ("version", "# a comment\nversion")):
        assert load(tmp_path, GOOD.replace(*change)).digest == digest
    assert load(tmp_path, GOOD.replace("definition = ", "definition = 'x' #")).digest != digest


def test_an_unknown_slug_is_an_error_and_never_a_pass():
    with pytest.raises(UsageError, match=r"unknown trait 'Gorre': did you mean gore\? expected one of animal_harm, "):
        traits.load()["Gorre"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *((("loud_noise", slug), "lower-case") for slug in ("Loud_noise", "loud-noise")),
        (('name = "Loud noise"', ""), "'name' is missing"),
        (('core = ["Is it loud"]', 'core = ["Is it louder"]'), "not among its topics"),
        (('"weak"', '"maybe"'), "strong, weak, none"),
        (("0.5", "1.5"), "from 0 to 1"),
        (("0.5", "true"), "from 0 to 1"),
        (("0.5", "nan"), "from 0 to 1"),
        (('topics = ["Is it loud", "Is there an explosion"]', 'topics = "Is it loud"'), "list"),
        (('guide = { applies = "weak", frightening = 0.5 }', "guide = 3"), "guide"),
        (("frightening", "frightning"), "frightning"),
        (("topics =", 'severe = "no"\ntopics ='), "severe = 'no': expected true or false"),  # it was read as yes
        (("slug =", "slug"), "not a TOML file"),
        (("[[trait]]", "[[traits]]"), "'traits' is read by nothing: did you mean trait"),
        (('version = "7"', 'Versions = "7"'), "'Versions' is read by nothing: did you mean version"),
        *((("[[trait]]", text), r"no \[\[trait\]\]") for text in ("[trait]", "trait = [1]\n[x]")),
    ],
)
def test_a_fault_names_the_file_and_the_field(tmp_path, change, says):
    with pytest.raises(UsageError, match=says) as fault:
        load(tmp_path, GOOD.replace(*change, 1))
    assert "own.toml" in str(fault.value)


def test_a_slug_stands_once_and_a_missing_file_is_a_users_mistake(tmp_path):
    with pytest.raises(UsageError, match="'loud_noise' stands twice"):
        load(tmp_path, GOOD + GOOD.replace('version = "7"', ""))
    with pytest.raises(UsageError, match="no such taxonomy file"):
        traits.load(tmp_path / "none.toml")

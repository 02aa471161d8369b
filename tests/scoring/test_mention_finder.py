"""Titles in free text: what counts as a title, where it begins and ends, and that none is guessed."""

import tomllib
from random import Random

import polars as pl
import pytest
from ahocorasick_rs import AhoCorasick

from saferec_builder import catalog
from saferec_builder.scoring import mention_finder
from saferec_builder.scoring.mention_finder import Forms
from saferec_builder.scoring.title_evidence import Place, evidence
from saferec_builder.scoring.title_words import as_words
from saferec_builder.sources import item_rows as made
from tests import DATA

FILMS = [
    *(("Alien", 1979), ("Suspiria", 1977), ("8½", 1963), ("Suspiria", 2018), ("It", 2017), ("Up", 2009)),
    *(("The Shining", 1980), ("(500) Days of Summer", 2009)),
    ("Ran (Chaos)", 1985),
    ("Birdman or (The Unexpected Virtue of Ignorance)", 2014),
    *(("Blade Runner 2049", 2017), ("Spider-Man: Homecoming", 2017), ("Ring, The", 1978)),
    *(("Ring: The Two Towers, The", 2002), ("Zodiac", 2007), ("'71", 2014), ("#Alive", 2020), ("Jack", 1996)),
    *(("2012", 2009), ("Young Adult", 2011), ("L'Avventura (The Adventure)", 1960), ("Earth", 2007), ("Serena", 2014)),
    *(("Rocky II", 1979), ("Amélie", 2001), ("Movie", 2011)),
    *(("Saw", 2004), ("Shaun of the Dead", 2004), ("The Dead", 2010), ("The Mirror", 2013)),
]


_DEAD, _SAW = ("The Dead (2009)", "The Dead (2010)"), ("Saw (2003)", "Saw (2004)")


@pytest.fixture(scope="module")
def shelf():
    rows = [made.item("csv", str(n), "f:1", domain="film", title=t, year=y) for n, (t, y) in enumerate(FILMS)]
    rows.append(made.item("csv", "g", "f:1", domain="game", title="Tetris", year=None))
    items = catalog.merge(made.items_read(rows, []).rows)[0]
    names = {row["item"]: f"{row['title']} ({row['year']})" for row in items.iter_rows(named=True)}
    return catalog.finder(items), names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I loved Zodiac and The Shining.", [("Zodiac", "Zodiac (2007)"), ("The Shining", "The Shining (1980)")]),
        ("have you seen the shining", [("the shining", "The Shining (1980)")]),
        ("I liked Zodiac's ending", [("Zodiac", "Zodiac (2007)")]),
        ("I loved 8½'s ending", [("8½", "8½ (1963)")]),
        # the year decides: within two years it is the film, otherwise another film
        ("not Suspiria [2017]", [("Suspiria [2017]", "Suspiria (2018)")]),
        ("Zodiac (1949)", []),
        ("I saw Suspiria! (2018)", [("Suspiria! (2018)", "Suspiria (2018)")]),
        ("It (2017) was good", [("It (2017)", "It (2017)")]),
        ("'71 (2014)", [("'71 (2014)", "'71 (2014)")]),
        ("#Alive (2020)", [("#Alive (2020)", "#Alive (2020)")]),
        # short common words are no titles, unless they are in quotes
        ("it was good, up there with the best movie", []),
        ('I liked "Up" a lot', [("Up", "Up (2009)")]),
        # the longer title
        ("The Ring: The Two Towers", [("The Ring: The Two Towers", "The Ring: The Two Towers (2002)")]),
        ("Blade Runner 2049", [("Blade Runner 2049", "Blade Runner 2049 (2017)")]),
        ("try Ran (Chaos) (1985)", [("Ran (Chaos) (1985)", "Ran (Chaos) (1985)")]),
        ("try (500) Days of Summer", [("(500) Days of Summer", "(500) Days of Summer (2009)")]),
        # a first name is no film
        ("anything with Jack Nicholson", []),
        # spellings
        ("i love spider man homecoming", [("spider man homecoming", "Spider-Man: Homecoming (2017)")]),
        ("Have you seen Rocky 2?", [("Rocky 2", "Rocky II (1979)")]),
        ("I like Amelie", [("Amelie", "Amélie (2001)")]),
        ("- tetris\n- zodiac", [("tetris", "Tetris (None)"), ("zodiac", "Zodiac (2007)")]),
        # the year of another film, a genre, part of a longer name that is not in the catalog
        ("Have you seen Men in Black 3 (2012)? It was released in 2012.", []),
        ("Have you heard of 2012?", [("2012", "2012 (2009)")]),
        ("It is Young-Adult fiction, and an adventure.", []),
        ('I liked "Young Adult" a lot', [("Young Adult", "Young Adult (2011)")]),
        ("I like Serena Williams, and I love The Pillars of the Earth.", []),
        ("have you seen Zodiac Alien", [("Zodiac", "Zodiac (2007)"), ("Alien", "Alien (1979)")]),
        ("Do you know who stars in Zodiac 2?", [("Zodiac", None)]),
        ("I saw Zodiac 2 times", [("Zodiac", "Zodiac (2007)")]),
        ("", []),
        ("🧑‍🚀 I saw Zodiac", [("Zodiac", "Zodiac (2007)")]),
        # the end of a longer title, before its year, is not a separate film
        ("Try Saw (2004), Shaun of the Dead (2008)", [("Saw (2004)", "Saw (2004)")]),
        ("try shaun of the dead (2008)", []),
        ("Shaun of the Dead (2010)", []),  # the year of The Dead, and the title of another
        ("Shaun of the Dead (2005)", [("Shaun of the Dead (2005)", "Shaun of the Dead (2004)")]),
        ("[US] Black Mirror (2011)", []),
        ("Black Mirror (2011) and Dawn of the Dead (2009)", []),
        ("Black Mirror (2013)", [("Mirror (2013)", "The Mirror (2013)")]),  # the only candidate in the catalog
        # a sentence before a title is no part of it
        ("Loved The Dead (2009). Try Saw (2003)", [_DEAD, _SAW]),
        ('I like "The Dead (2009)"\nMore of Them\nSaw (2003)', [_DEAD, _SAW]),
    ],
)  # fmt: skip
def test_what_is_a_title(shelf, text, found):
    finder, names = shelf
    assert [(text[m.start : m.end], names.get(m.item)) for m in catalog.in_text(finder, text)] == found


EVIDENCE = tomllib.loads((DATA / "evidence.toml").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize(("text", "title", "words", "names"), EVIDENCE)
def test_the_evidence_at_a_place(text, title, words, names):
    read, form = as_words(text), as_words(title).words
    first = next(n for n in range(len(read.words)) if read.words[n : n + len(form)] == form)
    place = Place(first, last := first + len(form) - 1, read.spans[last][1], " ".join(form))
    rare, count, case = words.split()
    of_words = [
        "bias",
        f"rare {rare}",
        f"words {count}",
        f"case {case}",
        f"rare {rare} {case}",
        f"words {count} {case}",
    ]
    assert evidence(read, place, title in ("shining", "The Ring")) == [*of_words, *names.split("|")]


def test_two_films_of_one_title_are_both_candidates_and_none_is_chosen(shelf):
    finder, names = shelf
    (mention,) = catalog.in_text(finder, "I love Suspiria")
    assert mention.item is None
    assert sorted(names[c] for c in mention.candidates) == ["Suspiria (1977)", "Suspiria (2018)"]


def test_a_year_that_the_catalog_does_not_know_names_another_film(shelf):
    """In brackets it is a year; without them it may be a number, and the title still matches: no item is chosen."""
    finder, names = shelf
    for text in ("I loved Zodiac 1949", "I loved Zodiac, 1949!"):
        (mention,) = catalog.in_text(finder, text)
        assert (text[mention.start : mention.end], mention.item) == ("Zodiac", None)
        assert [names[c] for c in mention.candidates] == ["Zodiac (2007)"]
    assert [names[m.item] for m in catalog.in_text(finder, "I loved Zodiac, 2008!")] == ["Zodiac (2007)"]


def test_an_empty_catalog_names_nothing():
    items = catalog.merge(pl.DataFrame(schema=made.items_read([], []).rows.schema))[0]
    assert catalog.in_text(catalog.finder(items), "I love Zodiac (2007)") == []


@pytest.mark.slow
def test_real_turns_half_that_no_weight_was_fitted_on(real_data):
    """The figures that `make bench ONLY=linking` prints for 7k titles: at least precision .90 and recall .85."""
    from tests.bench import bench_linking, linking_gold

    turns = [t for t in linking_gold.redial_turns(real_data) if t.half == linking_gold.REPORTED]
    precision, recall, lower = bench_linking.scores(catalog.finder(linking_gold.items_7k(real_data)), turns)
    assert (precision >= 0.9, recall >= 0.85, lower > 0.56) == (True, True, True), (precision, recall, lower)


def test_half_a_number_is_one_word_and_three_of_a_title():
    rows = [made.item("csv", t, "f:1", domain="film", title=t, year=y) for t, y in (("8½", 1963), ("2 Fast", 2003))]
    shelf = catalog.finder(catalog.merge(made.items_read(rows, []).rows)[0])
    text = 'both "8½" and "2 Fast", not 8½ fast'
    assert [text[m.start : m.end] for m in catalog.in_text(shelf, text)][:2] == ["8½", "2 Fast"]
    assert not [m for m in catalog.in_text(shelf, "½ fast") if m.start == 0]


def test_the_plain_search_finds_what_the_automaton_finds():
    forms = [" a ", " a b ", " b ", " b a b ", " c ", " ab "]
    automaton, random = AhoCorasick(forms), Random(1)
    for _ in range(200):
        text = f" {' '.join(random.choice(['a', 'b', 'ab', 'd', 'c']) for _ in range(random.randint(0, 8)))} "
        theirs = sorted(automaton.find_matches_as_indexes(text, overlapping=True))
        assert sorted(Forms(forms).find_matches_as_indexes(text)) == theirs, text


def test_a_finder_without_an_automaton_finds_the_same(shelf):
    text = "Like Blade Runner 2049, but '71 and Spider-Man: Homecoming's end"
    plain = mention_finder.finder(shelf[0].index, [f"{title} ({year})" for title, year in FILMS])
    assert catalog.in_text(plain, text) == catalog.in_text(shelf[0], text) != []

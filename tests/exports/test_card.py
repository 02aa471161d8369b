"""The card says what the manifest says, and text from outside stays plain text in its place."""

import hashlib
import json
import re

import pytest

from exports import card, croissant
from exports.manifest_types import OLDER
from exports.report import card_plot as charts
from saferec_builder.core.errors import UsageError
from tests.worlds import release_world as world


@pytest.fixture
def manifest(released):
    return json.loads((released.releases / "1.0.0/manifest.json").read_text())


@pytest.mark.slow
def test_the_hub_reads_the_card(manifest):
    from huggingface_hub import DatasetCard, DatasetCardData

    parsed = DatasetCard(card.render(manifest | {"licence": "cc0-1.0"}))
    assert isinstance(parsed.data, DatasetCardData)
    data = parsed.data.to_dict()
    assert (data["license"], data["pretty_name"], data["size_categories"]) == ("cc0-1.0", "ws", ["n<1K"])
    assert "simulated" not in data["tags"]
    configs = {c["config_name"]: {f["split"]: f["path"] for f in c["data_files"]} for c in data["configs"]}
    assert configs["items"] == {"catalog": "data/items/catalog.parquet"}
    assert {f"data/{c}/{s}.parquet" for c, splits in manifest["counts"].items() for s, n in splits.items() if n} == {
        path for files in configs.values() for path in files.values()
    }
    assert next(c for c in data["configs"] if c.get("default"))["config_name"] == "sft"
    table = card.render(manifest).split("| config | rows |")[1].split("- `sft`")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == set(configs)  # those without rows were listed with 0
    empty = [config for config in manifest["counts"] if config not in configs]
    assert empty and re.findall(r"`(\w+)`", table.split("Without a row")[1])[1:] == empty


def test_its_examples_run_as_they_are(released, capsys):
    folder = released.releases / "1.0.0"
    blocks = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)
    scope: dict[str, object] = {}
    for block in blocks:
        exec(block.replace("PATH_OR_REPO", str(folder)), scope)
    assert len(blocks) == 2 and "('Film " in capsys.readouterr().out


def test_a_size_is_from_its_lower_end_to_below_its_upper_one(manifest):
    ends = {999: "n<1K", 1_000: "1K<n<10K", 9_999: "1K<n<10K", 10_000: "10K<n<100K", 99_999: "10K<n<100K"}
    for rows, size in (ends | {100_000: "100K<n<1M", 999_999: "100K<n<1M", 1_000_000: "1M<n<10M"}).items():
        counts = manifest["counts"] | {"conversations": {"train": rows, "test": 0}}
        assert f'size_categories: ["{size}"]' in card.render(manifest | {"counts": counts})


def test_the_card_says_who_labelled_and_how_sure(manifest):
    text = " ".join(card.render(manifest | {"agreement": {"gore": {"alpha": 0.714, "units": 9}}, "missed": {}}).split())
    assert "Of 40 labels on people's sensitivities, 100% rest on people's reviews, 0% on simulated" in text
    # gore: 20 present, 20 absent; one of the 12 films has no answer about it: 8 %
    assert "| `gore` | 20 | 20 | 0 | 0.71 | 9 | n/a | n/a | 8% |" in text
    # nobody is labelled with the other 19 traits: they are withheld, and the card says so
    assert "| `needles`" not in text and "fewer than 5 different people" in text and "`needles`" in text
    assert "By the time of the request" in text and "No conversation was left out." in text
    # it once said that no list of such a person is there, and that later rows alone are kept: both were wrong
    assert "no list made from a conversation that has one." in text
    assert "stands in one split only: the one of the previous version, else the latest." in text

    # without this, `*` of an item (348 rows in the demo) reads as `absent` on every trait: unknown taken for safe
    assert "A `*` in `trait` is `absent` on every trait (but the withheld ones) of a conversation" in text
    assert "of an item, whose plot alone was read, it says nothing" in text
    assert "every trait of a conversation" in " ".join(card.render(manifest | {"withheld": []}).split())


def test_labels_that_nobody_read_are_not_told_as_people_s(manifest):
    promise = "Models and rules only propose; no label rests on them alone."
    assert promise in card.render(manifest)
    facts = manifest | {"makers": {"people": 30, "simulated": 0, "unresolved": 0, "auto": 10}}
    text = " ".join(card.render(facts).split())
    assert "Of 40 labels on people's sensitivities, 75% rest on people's reviews" in text and promise not in text
    assert "25% (`method` is `auto`) are sure proposals of a model or of rules that nobody read" in text
    assert "nobody read it" in croissant.rai(facts)["rai:dataAnnotationProtocol"]


def test_proposals_on_people_and_on_items_are_counted_apart(manifest):
    """`rules (7,042)`, 7,004 of which were flags of items."""
    facts = manifest | {"proposers": {"rules": 7042, "gpt": 3}, "item_flags": {"rules": 7004}}
    assert "rules (38 on people's sensitivities, 7,004 flags of items), gpt (3 on" in card.render(facts)
    assert "came from: rules (7,042), gpt (3)." in card.render(facts | {"item_flags": None})  # an older release


def test_a_card_without_labels_has_no_empty_table(manifest):
    """The card said that 0 % of 0 labels rest on people's reviews, above a table with a header and no rows."""
    unlabelled = {"makers": {"people": 0, "simulated": 0, "unresolved": 0}, "withheld": manifest["traits"]}
    text = " ".join(card.render(manifest | unlabelled).split())
    assert "No label on people's sensitivities is in this version" in text
    assert "rest on people's reviews" not in text and "| trait | present |" not in text


def test_a_few_are_not_none(manifest):
    # 2 of 1,000 labels are unresolved: 0.2 %; 998 rest on people's reviews: 99.8 %; 0.4 % of items are unknown
    facts = manifest | {"makers": {"people": 998, "simulated": 0, "unresolved": 2}, "unknown": {"gore": 0.004}}
    facts["labels"] = {"gore": {"present": 500, "absent": 498, "unsure": 1, "unresolved": 2}}
    text = " ".join(card.render(facts).split())
    assert r"1,000 labels on people's sensitivities, \>99% rest on" in text and "and &lt;1% are `unsure` or" in text
    assert "0% on simulated reviews" in text and "| &lt;1% |" in text and "| `gore` | 500 | 498 | 3 |" in text
    assert [card.percent(x) for x in (0, 0.006, 0.5, 0.994, 1)] == ["0%", "1%", "50%", "99%", "100%"]


def test_bounds_read_as_plain_words():
    """`&lt;= 53.9 \\%` stood in a sentence, and `5.5 % (5.5 to 5.6 %)` where everything was read: 31 of 560."""
    assert card.bound("<= 53.9 % (201 more audits for 5 %)") == "at most 53.9% (201 more audits for 5%)"
    assert (card.bound("5.5 % (5.5 to 5.6 %)"), card.bound("5.0 % (5.0 to 5.0 %)")) == ("5.5%", "5.0%")
    assert card.bound("5.5 % (5.4 to 5.6 %)") == "5.5% (5.4 to 5.6%)"
    assert card.bound("5.5 to 5.6 %") == "5.5 to 5.6%"  # how many is not known


def test_what_was_left_out_and_not_reviewed_is_said(manifest):
    dropped = {"straddles split": 1204, "reviewed by nobody": 31}
    facts = {"dropped": dropped, "unreviewed": 31, "split_rule": "seeker hash"}
    text = card.render(manifest | facts)
    assert "| straddles split | 1,204 | nothing |" in text and "| reviewed by nobody | 31 | `conversations`, " in text
    steps = croissant.rai(manifest | facts)["rai:dataPreprocessingProtocol"]
    assert steps[:2] == [
        "Left out: straddles split: 1204.",
        "In `conversations` only, without a row to learn from: reviewed by nobody: 31.",
    ]
    assert "31 conversations were reviewed by nobody" in text
    assert "stable hash of the seeker" in text and "By the time" not in text


def test_a_simulated_or_demo_card_says_so_first(manifest):
    for simulated, demo in ((True, False), (False, True), (True, True)):
        text = card.render(manifest | {"simulated": simulated, "demo": demo})
        first = text.split("---\n")[2].splitlines()[0]
        assert ("simulated" in first.lower() or "by a program" in first) == simulated
        assert ("invented" in first) == demo
        assert "demos and tests" in first and ", simulated]" in text
    plain = card.render(manifest | {"simulated": False, "demo": False})
    assert "invented" not in plain and "demos and tests" not in plain


HOSTILE = 'x" \n---\n# Owned\n<script>alert(1)</script> [a](http://b) | `c` {{ 7*7 }} \x1b[31m https://evil.example'


def test_names_from_outside_stay_plain_text(manifest):
    from huggingface_hub import DatasetCard

    facts = manifest | {"name": HOSTILE, "licence": HOSTILE, "sources": [HOSTILE], "proposers": {HOSTILE: 3}}
    text = card.render(facts | {"split_rule": f"time; seeker hash for rows without a time ({HOSTILE})"})
    head, body = text.split("\n---\n", 2)[0], text.split("\n---\n", 2)[1]
    assert text.count("\n---\n") == 1
    assert "<script" not in body and "\n# Owned" not in text and "\x1b" not in text
    assert "](http" not in body and "\\`c\\`" in body and "49" not in head
    assert "evil.example" in body and "https://" not in body
    assert DatasetCard(text).data.to_dict()["pretty_name"].startswith('x" --- # Owned <script>')


def test_the_change_log_grows_downwards(manifest):
    older = card.changelog(manifest, None, "")
    counts = manifest["counts"] | {"sft": {"train": 30, "validation": 4, "test": 4}}
    facts = {"version": "1.0.1", "counts": counts, "changes": ["major: the thresholds of the rule changed"]}
    newer = card.changelog(manifest | facts, manifest, older)
    assert newer.startswith("# Changes\n\n## 1.0.1\n\n- sft: 38 rows (-2)\n")
    assert "thresholds of the rule changed" in newer and newer.endswith(older.removeprefix("# Changes\n"))


def test_the_card_shows_a_plot_of_what_it_says(manifest, tmp_path):
    assert f"]({charts.PLOT})" in card.render(manifest) and charts.PLOT in manifest["files"]
    plot = charts.draw(manifest)
    assert plot is not None and plot[:8] == b"\x89PNG\r\n\x1a\n"
    assert hashlib.sha256(plot).hexdigest() == manifest["files"][charts.PLOT]["sha256"]  # the manifest is all it needs
    assert charts.PLOT not in card.render(manifest | OLDER | {"plot": None})  # of a release that lacks these facts


@pytest.mark.slow
def test_no_licence_is_declared_that_its_owner_did_not_set(workspace, cli, manifest):
    """Every release declared cc-by-4.0, which its owner had not set."""
    from huggingface_hub import DatasetCard

    folder = workspace.releases / "1.0.0"
    assert manifest["licence"] is None
    text = (folder / "README.md").read_text()
    assert "license" not in DatasetCard(text).data.to_dict() and "cc-by" not in text
    assert "No licence for this dataset was declared by its owner" in text and "| messages |" in text
    assert "license" not in json.loads((folder / "croissant.json").read_text())
    undeclared = cli("release", "1.0.0", "-C", workspace.root)
    assert "no licence was declared by its owner: set [dataset] licence in saferec.toml" in undeclared.out
    world.configured(workspace, "# licence =", "licence =")
    result = cli("release", "1.0.1", "-C", workspace.root, "--json")
    assert result.code == 0 and "licence" not in result.json
    later = workspace.releases / "1.0.1"
    assert DatasetCard((later / "README.md").read_text()).data.to_dict()["license"] == "cc-by-4.0"
    assert json.loads((later / "croissant.json").read_text())["license"] == "cc-by-4.0"
    assert "declared by its owner" not in (later / "README.md").read_text()
    with pytest.raises(UsageError, match=r"dataset\.licence"):
        world.configured(workspace, 'licence = "cc-by-4.0"', 'licence = " "')


def test_no_reader_of_markdown_makes_a_link_of_a_name():
    assert card.escape("see www.evil.example and WWW.x.example") == "see www\\.evil.example and WWW\\.x.example"


def test_a_mark_stands_once_and_below_the_header():
    mark, text = r"**1.0.0 was withdrawn: wr\*ng. Do not use it.**", "---\nname: x\n---\n# ws\ntext\n"
    marked = card.bannered(text, "1.0.0", "wr*ng", bare=False)
    assert marked == f"---\nname: x\n---\n{mark}\n\n# ws\ntext\n"
    assert card.bannered(marked, "1.0.0", "wr*ng", bare=False) == marked
    head = f"---\ntags: [withdrawn]\n---\n{mark}\n\n"
    assert card.bannered("no header", "1.0.0", "wr*ng", bare=False) == f"{head}no header"
    # what stood above a rule became the header, and so did none of a card that was saved with other ends of lines
    assert card.bannered("one\n---\ntwo", "1.0.0", "wr*ng", bare=False) == f"{head}one\n---\ntwo"
    assert card.bannered(text.replace("\n", "\r\n"), "1.0.0", "wr*ng", bare=False) == marked
    assert card.bannered(text, "1.0.0", "wr*ng", bare=True) == head

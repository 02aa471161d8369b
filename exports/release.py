"""Freezes labels, conversations and catalog as the folder releases/VERSION, and opens existing releases."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from exports import (
    card,
    checks,
    croissant,
    diff as differences,
    folder as files,
    formats,
    injection,
    licences,
    linkage,
    provenance,
    publish as publishing,
    released_ids,
    required_version_bump as versioning,
    verify as proof,
)
from exports.assemble import Assembled, Options, assemble
from exports.manifest_types import Facts, Stamp
from exports.report import card_plot
from exports.verify import CERTIFICATE
from saferec_builder.core.release_files import SUMS, sha256
from saferec_builder.mining.splits import SPLITS
from saferec_builder.storage import config, tables
from saferec_builder.storage.workspace import Workspace, alone, append, parts, read, shared


@dataclass(frozen=True)
class Release:
    """A folder that holds one version, with the facts of its manifest.json."""

    folder: Path
    manifest: Facts = field(repr=False)  # too long for a notebook to show
    new: bool = False  # made by this call; False if it existed
    # linkage.worst of a new release, for the sources whose texts stay out
    found_again: dict[str, tuple[int, int]] = field(default_factory=dict)
    advice: str | None = None  # what to do about the splits
    too_few: dict[str, int] = field(default_factory=dict)  # of one just made: withheld traits -> people who have them

    @classmethod
    def open(cls, folder: Path | str) -> "Release":
        """Returns the release in that folder; raises ReleaseError if there is none."""
        return cls(Path(folder), files.facts_of(Path(folder)))

    @property
    def version(self) -> str:
        return self.manifest["version"]

    @property
    def rows(self) -> dict[str, int]:
        """Returns config -> rows of all its splits."""
        return {name: sum(splits.values()) for name, splits in self.manifest["counts"].items()}

    @property
    def learned(self) -> int:
        """Conversations with a request to learn from; injected requests do not count."""
        return sum(self.manifest["conditions"].get(name, 0) for name in ("own_words", "none", "open"))

    @property
    def unmeasured(self) -> bool:
        """Whether it has safety rows, and none of them is in the test split. Without the lists, of sources that keep
        their texts, it cannot be told, and is False."""
        if self.manifest["silent"] or not any(self.manifest["safety_rows"].values()):
            return False
        path = self.folder / files.data_file("grpo", "test")
        told = pl.concat_list("traits", "late_traits").list.len() > 0
        clear = pl.col("safe_truth").list.len() > 0
        return not path.is_file() or pl.scan_parquet(path, glob=False).filter(told, clear).head(1).collect().is_empty()

    @property
    def remarks(self) -> dict[str, str]:
        """What its owner should know before passing it on, in words."""
        facts, remarks = self.manifest, dict[str, str]()
        if (rare := facts["combinations"]) and rare["withheld"]:
            people = f"{rare['withheld_of']} people (fewer than {rare['k']} people share theirs)"
            remarks["withheld_labels"] = f"{rare['withheld']} of {rare['traits']}, {people}"
        if shortage := injection.shortage(facts):
            remarks["no_clear_item"] = shortage
        if not facts["licence"]:
            remarks["licence"] = "no licence was declared by its owner: set [dataset] licence in saferec.toml"
        if facts["parent"] and not facts["changes"]:
            remarks["the_same_again"] = f"nothing changed since {facts['parent']}: no row, no column, no meaning"
        return remarks

    def verify(self) -> proof.Verified:
        """Checks every file against SHA256SUMS and the manifest; raises ReleaseError for the first fault."""
        return proof.verified(self.folder)

    def diff(self, later: "Release | Path | str", *, predictions: Path | str | None = None) -> differences.Difference:
        """Returns what changed between this release and a later one; verifies both first, as others may have made them,
        and raises ReleaseError as `verify` does."""
        after = later.folder if isinstance(later, Release) else Path(later)
        before, after = (proof.made_elsewhere(folder) for folder in (self.folder, after))
        return differences.diff(before, after, Path(predictions) if predictions else None)

    def publish(
        self,
        to: Path | str | None = None,
        *,
        repo: str | None = None,
        public: bool = False,
        gated: bool = True,
        dry: bool = False,
        sign: Path | str | None = None,
        found_again: bool = False,
    ) -> publishing.Published:
        """Publishes as publish.publish does; raises UsageError outside a workspace, as only that knows of removals."""
        ws = Workspace.open(self.folder.resolve().parent.parent)
        folder, key = (Path(path) if path else None for path in (to, sign))
        options = {"public": public, "gated": gated, "dry": dry, "found_again": found_again}
        return publishing.publish(ws, self.version, to=folder, repo=repo, sign=key, **options)


def without_effect(ws: Workspace) -> dict[str, str]:
    """Returns the checks, by their name in checks.toml, that can neither stop nor withhold anything of this workspace
    as it is now -> why."""
    conversations, catalog = (
        {source for part in parts(ws, table, "source") for source in part["source"].unique()}
        for table in (tables.CONVERSATIONS, tables.CATALOG_ROWS)
    )
    reasons = {
        "version": ""
        if any(ws.releases.glob(f"*/{files.MANIFEST}"))
        else "there is no earlier release to compare with",
        "licence": "" if licences.forbidden(conversations | catalog) else "no source here has such a licence",
        "simulated": "this is a demo" if ws.config.demo else "",
        "certificate": "" if (read(ws, tables.LABELS)["method"] == "auto").any() else "no label here is `auto`",
        "text": "" if licences.silent(conversations) else "no source here keeps its texts",
    }
    no_least = "[release] min_seekers is 1" if ws.config.release.min_seekers == 1 else ""
    reasons |= {"small groups": no_least, "rare combinations": no_least or reasons["text"]}
    return {name: reason for name, reason in reasons.items() if reason}


@shared
def release(
    ws: Workspace,
    version: str,
    *,
    inject: str | None = None,
    unreviewed: bool = False,
    allow: Iterable[str] = (),
    with_text: bool = False,
    resplit: bool = False,
) -> Release:
    """Freezes the labelled conversations as releases/VERSION; the table drops records what is left out.

    inject: add requests with sentences of ours, for `all` traits or for those given, separated by commas. allow:
    sources that may be passed on, `simulated`, `no-safety`, reported conversations. Raises ReleaseError if a check
    (checks.toml) fails, or if VERSION exists with other rows.
    """
    checks.check_version(version)
    options = Options(version, inject, unreviewed, frozenset(allow), with_text, resplit)
    with alone(ws, "release"):
        assembled = assemble(ws, options)
        new, facts = _freeze(ws, assembled)
        append(ws, tables.DROPS, assembled.drops)
    folder, silent = ws.releases / version, assembled.content.silent
    found = linkage.worst(ws, folder, silent) if silent else {}
    return Release(folder, facts, new, found, _advice(facts, ws.config.splits, found), assembled.too_few)


def _advice(facts: Facts, shares: config.Splits, found: Mapping[str, tuple[int, int]]) -> str | None:
    """Advises against publishing what can be found again; else new boundaries if the test split is far too large:
    conversations mined after a release are later than its boundaries, and are left out if their seeker is in an earlier
    split."""
    if any(hits for hits, _ in found.values()):
        return (
            f"do not publish it: `saferec-build linkage {facts['version']}` says by what conversations are found again,"
            " and what to do"
        )
    sizes = facts["counts"]["grpo"]
    share = sizes["test"] / max(1, sum(sizes.values()))
    if not facts["parent"] or shares.test_from or share <= 2 * shares.test:
        return None
    problem = f"{share:.0%} of the requests are test, for the boundaries are those of {facts['parent']}"
    return f"{problem}: --resplit, in a major version, draws new ones"


def _freeze(ws: Workspace, assembled: Assembled) -> tuple[bool, Facts]:
    """Writes releases/VERSION, if the version is high enough for the changes; returns (is it new, the manifest)."""
    facts, parent = assembled.facts.copy(), assembled.parent

    def finish(draft: Path, written: files.Written) -> tuple[Facts, dict[str, bytes]]:
        (draft / "traits.toml").write_bytes(assembled.taxonomy)
        facts["counts"], facts["row_digests"] = written.counts, written.digests
        changes: list[versioning.Change] = []
        parent_facts: Facts | None = None
        changelog, stamp = "", None
        if parent:
            changes = versioning.check(parent, draft, facts)
            parent_facts = files.facts_of(parent)
            changelog = (parent / "CHANGELOG.md").read_text(encoding="utf-8")
            stamp = Stamp(version=parent_facts["version"], sha256=sha256(parent / SUMS))
        facts["changes"] = [f"{change.size}: {change.what}" for change in changes]
        plot = card_plot.draw(facts)
        facts["plot"] = card_plot.PLOT if plot else None
        texts = {card_plot.PLOT: plot} if plot else {}
        texts |= {
            "README.md": card.render(facts).encode(),
            "CHANGELOG.md": card.changelog(facts, parent_facts, changelog).encode(),
            "croissant.json": croissant.render(facts, written.files, formats.schemas(assembled.content.official)),
            "provenance.json": provenance.render(facts, assembled.origins, stamp),
            "traits.toml": assembled.taxonomy,
        }
        if assembled.certificate:
            texts[CERTIFICATE] = assembled.certificate.model_dump_json(indent=1).encode()
        return facts, texts

    major, minor, _ = checks.check_version(facts["version"])
    higher = f"run this command with a higher version, as in `saferec-build release {major}.{minor + 1}.0`"
    new = files.build(ws.releases, facts["version"], _parts(assembled.content), formats.CONFIGS, finish, higher)
    folder = ws.releases / facts["version"]
    if new or not released_ids.path_of(folder).exists():  # an earlier run may have been killed before it wrote it
        released_ids.write(folder, assembled.content, assembled.starts)
    return new, facts


def _parts(content: formats.Content) -> Iterator[files.Part]:
    for split in SPLITS:
        for by_config in formats.chunks(content, split):
            yield from ((config, split, table) for config, table in by_config.items())
    yield from ((config, "catalog", table) for config, table in formats.catalog(content).items())

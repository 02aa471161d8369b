"""Labels, conversations and catalog become one frozen folder, releases/VERSION; a release that is there is opened."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from exports import (
    card,
    checks,
    croissant,
    diff as differences,
    folder as files,
    formats,
    provenance,
    publish as publishing,
    released_ids,
    required_version_bump as versioning,
    verify as proof,
)
from exports.assemble import Assembled, Options, assemble
from exports.manifest_types import Facts, Stamp
from exports.report import card_plot as charts
from exports.verify import CERTIFICATE
from saferec_builder.core.release_files import SUMS, sha256
from saferec_builder.storage import config, tables
from saferec_builder.storage.workspace import Workspace, alone, append, shared


@dataclass(frozen=True)
class Release:
    """A folder that holds one version, and what its manifest.json says."""

    folder: Path
    manifest: Facts = field(repr=False)  # pages of it, where a notebook shows the object
    new: bool = False  # made by this call; False where it was there
    advice: str | None = None  # what to do about the splits

    @classmethod
    def open(cls, folder: Path | str) -> "Release":
        """The release in that folder; ReleaseError where there is none."""
        return cls(Path(folder), files.facts_of(Path(folder)))

    @property
    def version(self) -> str:
        return self.manifest["version"]

    @property
    def rows(self) -> dict[str, int]:
        """config -> rows of all its splits."""
        return {name: sum(splits.values()) for name, splits in self.manifest["counts"].items()}

    @property
    def learned(self) -> int:
        """Conversations that teach something: each is one request, without those that were injected."""
        return self.manifest["conditions"]["own_words"] + self.manifest["conditions"]["none"]

    def verify(self) -> proof.Verified:
        """Every file against SHA256SUMS and the manifest; ReleaseError names the first fault."""
        return proof.verified(self.folder)

    def diff(self, later: "Release | Path | str", *, predictions: Path | str | None = None) -> differences.Difference:
        """What changed between this release and a later one."""
        after = later.folder if isinstance(later, Release) else Path(later)
        return differences.diff(self.folder, after, Path(predictions) if predictions else None)

    def publish(
        self,
        to: Path | str | None = None,
        *,
        repo: str | None = None,
        public: bool = False,
        gated: bool = True,
        dry: bool = False,
        sign: Path | str | None = None,
    ) -> publishing.Published:
        """As publish.publish; UsageError where the release lies in no workspace, which alone knows of removals."""
        ws = Workspace.open(self.folder.resolve().parent.parent)
        folder, key = (Path(path) if path else None for path in (to, sign))
        return publishing.publish(ws, self.version, to=folder, repo=repo, public=public, gated=gated, dry=dry, sign=key)


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
    """Freezes the labelled conversations as releases/VERSION; what it leaves out goes into the table drops.

    inject: add requests with sentences of ours, `all` or traits with commas. allow: sources that may be passed on,
    `simulated`, `no-safety`, reported conversations. ReleaseError where a check (checks.toml) stops it, or VERSION is
    there with other rows.
    """
    checks.check_version(version)
    options = Options(version, inject, unreviewed, frozenset(allow), with_text, resplit)
    with alone(ws, "release"):
        made = assemble(ws, options)
        new, facts = _freeze(ws, made)
        append(ws, tables.DROPS, made.drops)
    return Release(ws.releases / version, facts, new, _outgrown(facts, ws.config.splits))


def _outgrown(facts: Facts, shares: config.Splits) -> str | None:
    """What is mined after a release is later than its boundaries, and left out where its seeker stands before them."""
    sizes = facts["counts"]["grpo"]
    share = sizes["test"] / max(1, sum(sizes.values()))
    if not facts["parent"] or shares.test_from or share <= 2 * shares.test:
        return None
    found = f"{share:.0%} of the requests are test, for the boundaries are those of {facts['parent']}"
    return f"{found}: --resplit, in a major version, draws new ones"


# ---- files


def _freeze(ws: Workspace, made: Assembled) -> tuple[bool, Facts]:
    """(is it new, the manifest): writes releases/VERSION, where its version is large enough for what changed."""
    facts, parent = made.facts.copy(), made.parent

    def finish(draft: Path, written: files.Written) -> tuple[Facts, dict[str, bytes]]:
        (draft / "traits.toml").write_bytes(made.taxonomy)
        facts["counts"], facts["row_digests"] = written.counts, written.digests
        found: list[versioning.Change] = []
        before: Facts | None = None
        log, stamp = "", None
        if parent:
            found = versioning.check(parent, draft, facts, checks.check_version(facts["version"]))
            before = files.facts_of(parent)
            log = (parent / "CHANGELOG.md").read_text(encoding="utf-8")
            stamp = Stamp(version=before["version"], sha256=sha256(parent / SUMS))
        facts["changes"] = [f"{change.size}: {change.what}" for change in found]
        plot = charts.draw(facts)
        facts["plot"] = charts.PLOT if plot else None
        texts = {charts.PLOT: plot} if plot else {}
        texts |= {
            "README.md": card.render(facts).encode(),
            "CHANGELOG.md": card.changelog(facts, before, log).encode(),
            "croissant.json": croissant.render(facts, written.files, formats.schemas(made.content.official)),
            "provenance.json": provenance.render(facts, made.provenance, stamp),
            "traits.toml": made.taxonomy,
        }
        if made.certificate:
            texts[CERTIFICATE] = made.certificate.model_dump_json(indent=1).encode()
        return facts, texts

    new = files.build(ws.releases, facts["version"], _parts(made.content), formats.CONFIGS, finish)
    home = ws.releases / facts["version"]
    if new or not released_ids.path_of(home).exists():  # it may have been killed before
        released_ids.write(home, made.content, made.starts)
    return new, facts


def _parts(content: formats.Content) -> Iterator[files.Part]:
    for split in formats.SPLITS:
        for made in formats.chunks(content, split):
            yield from ((config, split, table) for config, table in made.items())
    yield from ((config, "catalog", table) for config, table in formats.catalog(content).items())

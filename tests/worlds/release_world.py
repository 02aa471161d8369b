"""A small world for the tests of releases: twelve films, some of them bloody, and people who ask for one.

Film A..L (2001..2012). Gore: A, B, C are bloody (risk 1), nobody voted on L (unknown), the others are clear.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from exports import folder as write
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds.settings import add_settings

LETTERS = "ABCDEFGHIJKL"
TAXONOMY = traits.load().digest
START = datetime(2024, 1, 1, tzinfo=UTC)


def film(letter: str) -> str:
    return f"Film {letter} ({2001 + LETTERS.index(letter)})"


def ref(letter: str) -> str:
    return f"title:{film(letter)}"


def item(letter: str) -> str:
    return tables.digest("item", "csv", letter)


def catalog() -> pl.DataFrame:
    rows = [
        {"source": "csv", "source_id": x, "domain": "film", "title": f"Film {x}", "year": 2001 + n, "plot": None}
        | {"refs": [], "aliases": [], "genres": []}
        for n, x in enumerate(LETTERS)
    ]
    return tables.CATALOG_ROWS.frame(rows)


def warnings() -> pl.DataFrame:
    rows = [
        {"warning": f"w-{x}-{topic}", "ref": ref(x), "domain": "film", "kind": "topic", "topic": topic, "source": "csv"}
        | {"answer": "yes" if x in "ABC" else "no"}
        for x in "ABCDEFGHIJK"
        for topic in traits.load()["gore"].core
    ]
    return tables.WARNINGS.frame(rows)


def conversation(
    name: str, *turns: str, day: int | None = 0, seeker: str | None = None, source: str = "messages", **refs: str
) -> dict:
    """Turns alternate, the seeker speaks first; recommended="AB" names films A and B."""
    rows = [{"role": ("seeker", "recommender")[n % 2], "text": t, "items": []} for n, t in enumerate(turns)]
    lists = {column: [ref(x) for x in refs.get(column, "")] for column in ("recommended", "accepted", "seen")}
    row = {"conversation": name, "digest": tables.digest(rows), "source": source, "source_id": name, "domain": "film"}
    time = None if day is None else START + timedelta(days=day)
    return row | lists | {"source_file": "x.jsonl", "seeker": seeker, "time": time, "turns": rows}


def conversations(*rows: dict) -> pl.DataFrame:
    return tables.CONVERSATIONS.frame(list(rows))


def released(ws: store.Workspace, *names: str) -> list[str]:
    """The ids of these conversations in a release."""
    return [ws.released_id(name) for name in names]


def messages(row: dict) -> dict:
    """The conversation as a line of a file of messages, without what it recommends."""
    turns = [{"role": ("user", "assistant")[n % 2], "content": t["text"]} for n, t in enumerate(row["turns"])]
    return {"id": row["conversation"], "user": row["seeker"], "time": row["time"].isoformat(), "messages": turns}


def label(
    row: dict, trait: str = "gore", verdict: str | None = "present", quote: str | None = None, **other: object
) -> dict:
    """A label on this conversation; `quote` is looked up in its turns."""
    spans = []
    if quote:
        n, text = next((n, t["text"]) for n, t in enumerate(row["turns"]) if quote in t["text"])
        spans = [{"turn": n, "start": text.index(quote), "end": text.index(quote) + len(quote), "quote": quote}]
    fields = {"label": f"l-{row['conversation']}-{trait}-{verdict}", "kind": "sensitivity"}
    fields |= {"subject": row["conversation"], "trait": trait, "digest": row["digest"], "verdict": verdict}
    fields |= {"spans": spans, "reviews": [], "form": "implicit" if verdict == "present" else None, "simulated": False}
    return fields | {"method": "agreed" if verdict else "unresolved"} | other


def labels(*rows: dict) -> pl.DataFrame:
    return tables.LABELS.frame(list(rows))


def requests(n: int = 40) -> tuple[list[dict], list[dict]]:
    """(conversations, labels): one a day, each by another person; every second person cannot see blood."""
    rows, label_rows = [], []
    for i in range(n):
        letters = [LETTERS[(i + step) % 12] for step in range(3)]
        hint = "I faint at the sight of blood. " if i % 2 else ""
        question = f"{hint}I liked {film(LETTERS[(i + 5) % 12])}, what next?"
        answer = "Try " + ", ".join(film(x) for x in letters)
        talk = (f"c{i:03d}", question, answer, "Thanks!")
        rows.append(conversation(*talk, day=i, seeker=f"p{i}", accepted="".join(letters[:2])))
        verdict, quote = ("present", "faint at the sight of blood") if i % 2 else ("absent", None)
        label_rows.append(label(rows[-1], verdict=verdict, quote=quote))
    return rows, label_rows


def fill(
    ws: store.Workspace, rows: list[dict], said: list[dict], warned: pl.DataFrame | None = None
) -> store.Workspace:
    """Puts the catalog, these conversations and labels into a workspace; `warned`: other warnings than the world's."""
    for table, frame in (
        (tables.CATALOG_ROWS, catalog()),
        (tables.WARNINGS, warnings() if warned is None else warned),
        (tables.CONVERSATIONS, conversations(*rows)),
        (tables.LABELS, labels(*said)),
    ):
        store.append(ws, table, frame)
    return ws


def configured(ws: store.Workspace, old: str, new: str) -> store.Workspace:
    """The workspace after this edit of its saferec.toml."""
    config = ws.root / "saferec.toml"
    config.write_text(config.read_text().replace(old, new))
    return store.Workspace.open(ws.root)


def for_few(ws: store.Workspace, least: int = 2) -> None:
    """Reports figures of at least `least` people: in the world of `requests`, two people of the test split faint."""
    add_settings(ws.root, "release", f"min_seekers = {least}")


def grow(ws: store.Workspace, cli, version: str = "1.1.0") -> None:
    """A later release with one more conversation."""
    row = conversation(f"new{version}", "Hi", f"Try {film('D')}", "ok", day=99)
    store.append(ws, tables.CONVERSATIONS, conversations(row))
    assert cli("release", version, "--unreviewed", "-C", ws.root).code == 0


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def review(row: dict, who: str = "ann", **other: object) -> dict:
    """A review of this conversation by somebody who sees no gore."""
    fields = {"review": f"{who}-{row['conversation']}", "kind": "sensitivity", "subject": row["conversation"]}
    fields |= {"trait": "gore", "digest": row["digest"], "reviewer": who, "role": "reviewer", "verdict": "absent"}
    return fields | {"spans": [], "tool": "files", "guideline": "g", "taxonomy": TAXONOMY, "simulated": False} | other


def reviews(*rows: dict) -> pl.DataFrame:
    return tables.REVIEWS.frame(list(rows))


def reseal(folder, path, change):
    """Changes a table and makes every checksum fit again, as a careless editor with good tools would."""
    pq.write_table(change(pq.read_table(folder / path)), folder / path)
    seal(folder, path)


def stated(folder: Path, **facts: object) -> None:
    """States these facts in the release's manifest, with checksums that fit."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | facts))
    seal(folder, "README.md")


def seal(folder, path):
    """Makes the checksums fit a file that was changed."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][path]["sha256"] = write.sha256(folder / path)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS"]
    sums = [f"{write.sha256(p)}  {p.relative_to(folder).as_posix()}" for p in files]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")

"""A small world for the tests of releases: twelve films, some of them bloody, and people who ask for one.

Film A..L (2001..2012). Gore: A, B, C are bloody (risk 1), L was never asked about (unknown), the others are clear.
"""

import json
from datetime import UTC, datetime, timedelta

import polars as pl

from exports import folder as write
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store

LETTERS = "ABCDEFGHIJKL"
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
    return pl.DataFrame(rows, schema=tables.CATALOG_ROWS.schema)


def warnings() -> pl.DataFrame:
    rows = [
        {"warning": f"w-{x}-{topic}", "ref": ref(x), "domain": "film", "kind": "topic", "topic": topic, "source": "csv"}
        | {"answer": "yes" if x in "ABC" else "no"}
        for x in "ABCDEFGHIJK"
        for topic in traits.load()["gore"].core
    ]
    return pl.DataFrame(rows, schema=tables.WARNINGS.schema)


def conversation(
    name: str,
    *turns: str,
    day: int | None = 0,
    seeker: str | None = None,
    source: str = "messages",
    **refs: str,
) -> dict:
    """Turns alternate, the seeker speaks first; recommended="AB" names films A and B."""
    said = [{"role": ("seeker", "recommender")[n % 2], "text": t, "items": []} for n, t in enumerate(turns)]
    lists = {column: [ref(x) for x in refs.get(column, "")] for column in ("recommended", "accepted", "seen")}
    row = {"conversation": name, "digest": tables.digest(said), "source": source, "source_id": name, "domain": "film"}
    when = None if day is None else START + timedelta(days=day)
    return row | lists | {"source_file": "x.jsonl", "seeker": seeker, "time": when, "turns": said}


def conversations(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=tables.CONVERSATIONS.schema)


def label(
    row: dict, trait: str = "gore", verdict: str | None = "present", quote: str | None = None, **other: object
) -> dict:
    """A label on this conversation; `quote` is looked up in its turns."""
    spans = []
    if quote:
        n, text = next((n, t["text"]) for n, t in enumerate(row["turns"]) if quote in t["text"])
        spans = [{"turn": n, "start": text.index(quote), "end": text.index(quote) + len(quote), "quote": quote}]
    made = {
        "label": f"l-{row['conversation']}-{trait}-{verdict}",
        "kind": "sensitivity",
        "subject": row["conversation"],
    }
    made |= {"trait": trait, "digest": row["digest"], "verdict": verdict, "spans": spans, "reviews": []}
    made |= {"form": "implicit" if verdict == "present" else None, "simulated": False}
    return made | {"method": "agreed" if verdict else "unresolved"} | other


def labels(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=tables.LABELS.schema)


def requests(n: int = 40) -> tuple[list[dict], list[dict]]:
    """(conversations, labels): one a day, each by a person of their own; every second one cannot see blood."""
    rows, said = [], []
    for i in range(n):
        named = [LETTERS[(i + step) % 12] for step in range(3)]
        hurt = "I faint at the sight of blood. " if i % 2 else ""
        ask = f"{hurt}I liked {film(LETTERS[(i + 5) % 12])}, what next?"
        answer = "Try " + ", ".join(film(x) for x in named)
        rows.append(
            conversation(f"c{i:03d}", ask, answer, "Thanks!", day=i, seeker=f"p{i}", accepted="".join(named[:2]))
        )
        verdict, quote = ("present", "faint at the sight of blood") if i % 2 else ("absent", None)
        said.append(label(rows[-1], verdict=verdict, quote=quote))
    return rows, said


def fill(ws: store.Workspace, rows: list[dict], said: list[dict]) -> store.Workspace:
    """Puts the catalog, these conversations and labels into a workspace."""
    store.append(ws, tables.CATALOG_ROWS, catalog())
    store.append(ws, tables.WARNINGS, warnings())
    store.append(ws, tables.CONVERSATIONS, conversations(*rows))
    store.append(ws, tables.LABELS, labels(*said))
    return ws


def reseal(folder, path, change):
    """Changes a table and makes every checksum fit again, as a careless editor with good tools would."""
    import pyarrow.parquet as pq

    pq.write_table(change(pq.read_table(folder / path)), folder / path)
    seal(folder, path)


def seal(folder, path):
    """Makes the checksums fit a file that was changed."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][path]["sha256"] = write.sha256(folder / path)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS"]
    sums = [f"{write.sha256(p)}  {p.relative_to(folder).as_posix()}" for p in files]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")

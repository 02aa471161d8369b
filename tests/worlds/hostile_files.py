"""Every kind of file that a command reads, with every damage that fits it: several hundred cases.

A case is a file of a few good rows, one of them (or the whole) damaged. `least` is the number of rows still in it: a
command that succeeds has to account for each of them, as a row or as a drop with its reason.
"""

import gzip
import io
import json
import os
import shutil
import string
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from saferec_builder.core import taxonomy
from saferec_builder.storage import workspace as store
from tests.worlds import reddit_dump, release_world as world
from tests.worlds.catalog_files import BASICS, VOTES, media
from tests.worlds.damages import ANY, FOR, JSON, NAMES, PARQUET, PLACES, YAML, at_row
from tests.worlds.once import command
from tests.worlds.settings import add_settings
from tests.worlds.source_lines import OFFICIAL, REDIAL, chat

ROWS = 6
MEANT = {("reddit", "a pipe"), ("reddit zst", "a pipe")}  # dumps may be unpacked into a pipe


@dataclass(frozen=True)
class Kind:
    """A kind of file: its place in the case's folder, a good one, and the command that reads it ({} is its path)."""

    path: str
    words: str
    good: bytes = b""  # empty: the workspace has the file already
    counted: bool = False  # the command reports how many rows came in

    @property
    def form(self) -> str:
        """A key of damages.FOR."""
        suffix = Path(self.path).suffix[1:]
        return {"ndjson": "jsonl", "md": "yaml", "": "text"}.get(suffix, suffix)


def lines(rows: list[object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(head: str, row: str) -> bytes:
    return (
        head.rstrip("\n") + "\n" + "".join(string.Template(row).substitute(n=n) + "\n" for n in range(ROWS))
    ).encode()


def parquet(rows: list[dict[str, object]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


CHATS = [json.loads(chat(f"a{n}", f"A film without gore, number {n}?", "Heat (1995)")) for n in range(ROWS)]
NUMBERED = range(ROWS)
ASKED = [OFFICIAL | {"prompt": [{"role": "user", "content": f"A calm film, {n}"}]} for n in NUMBERED]
OFFICIAL_TEXTS = [{key: json.dumps(value) for key, value in row.items()} for row in ASKED]  # as tables without nesting
POSTS = lines([reddit_dump.submission(n) for n in NUMBERED])
TALKS = [{"id": f"a{n}", "messages": [{"role": "user", "content": f"A film, {n}?"}]} for n in NUMBERED]
FILMS = {str(n): {"name": f"Alien {n} (1979)", "genre": ["Horror"], "plot": "p"} for n in NUMBERED}
VIEWED = [media(n, f"Alien {n}", stats=[("Is there blood", 3, 1)]) for n in NUMBERED]
SHOWN = [{"model": "m", "id": str(n), "titles": [world.film("A"), world.film("D")]} for n in NUMBERED]
GUIDE = [{"title": f"It {n}", "year": "1990", "violence": "Severe"} for n in NUMBERED]
REASONS = table("title,year,rating,reason", "Film no $n,2003,R,for strong bloody violence")
TITLES = table(BASICS, "tt000000$n\tmovie\tIt $n\tIt $n\t0\t1990\t\\N\t90\tHorror")
ITEMS = lines([{"title": f"It {n}", "year": 1990, "domain": "film"} for n in NUMBERED])
ANSWERS = lines([{"id": f"c{n}", "text": "1. Heat (1995)"} for n in NUMBERED])
RELEASE = "ws/releases/1.0.0"
DIFF = f"diff {RELEASE} ws/releases/1.1.0"
EVALUATE = f"train evaluate --release {RELEASE} --output out --predictions"
UTTERED = "dialog_id,utterance_index,speaker,text"
SPOKEN = [{"index": 0, "speaker": "USER", "text": "A film?"}]
ELICITED = [{"conversationId": f"d{n}", "utterances": SPOKEN} for n in NUMBERED]
SESSION = '[{""type"": ""chat"", ""sender"": ""user"", ""message"": ""A film, $n?""}]'
SAID = "dialog_id\tutt_id\tspeaker\tturn_id\ttext\tmovies"

SIZES = (  # of a model, as its config.json has them
    b"shape: {vocab_size: 128, hidden_size: 64, intermediate_size: 64, num_hidden_layers: 2,"
    b" num_attention_heads: 2, num_key_value_heads: 2}\n"
)

KINDS = {
    "messages": Kind("t.jsonl", "mine messages {}", lines(CHATS), True),
    "opendialkg": Kind("t.jsonl", "mine opendialkg {}", lines(CHATS), True),
    "redial": Kind("t.jsonl", "mine redial {}", lines([REDIAL | {"conversationId": n} for n in NUMBERED]), True),
    "saferec": Kind("t.jsonl", "mine saferec {}", lines(ASKED), True),
    "saferec table": Kind("t.parquet", "mine saferec {}", parquet(OFFICIAL_TEXTS), True),
    "hf lines": Kind("t.jsonl", "mine hf {}", lines(TALKS), True),
    "hf table": Kind("t.parquet", "mine hf {}", parquet(TALKS), True),
    "hf card": Kind(
        "d/README.md",
        "mine hf d",
        b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: a.jsonl\n---\n# A\n",
    ),
    "inspired": Kind("t.tsv", "mine inspired {}", table(SAID, "d$n\t0\tSEEKER\t0\tA film, $n?\t"), True),
    "ccpe": Kind("t.csv", "mine ccpe {}", table(UTTERED, "d$n,0,USER,A film; $n?"), True),
    "ccpe published": Kind("t.json", "mine ccpe {}", json.dumps(ELICITED).encode(), True),
    "opendialkg published": Kind(
        "t.csv", "mine opendialkg {}", table("Messages,User Rating,Assistant Rating", f'"{SESSION}",5,4'), True
    ),
    "reddit": Kind("RS.ndjson", "mine reddit {} --workers 1", POSTS),
    "reddit zst": Kind("RS.zst", "mine reddit {} --workers 1", zstandard.compress(POSTS)),
    "items": Kind("t.csv", "catalog add csv {}", table("domain,title,year", "film,Film no $n,2003"), True),
    "warnings": Kind("t.csv", "catalog add warnings {}", table(VOTES, "Film no $n,2003,,film,blood,3,1,,"), True),
    "guide": Kind("t.csv", "catalog add parent-guide {}", table("title,year,violence", "Film no $n,2003,Severe"), True),
    "guide json": Kind("t.json", "catalog add parent-guide {}", json.dumps(GUIDE).encode(), True),
    "reasons": Kind("t.csv", "catalog add rating-reasons {}", REASONS, True),
    "keywords": Kind("t.csv", "catalog add keywords {}", table("title,year,keywords", "Film no $n,2003,gore"), True),
    "esrb": Kind(
        "t.csv", "catalog add esrb {}", table("certificate,game,esrb_rating,platform_name", "$n,Chess no $n,E,PC")
    ),
    "movielens": Kind(
        "ml/movies.csv", "catalog add movielens ml", table("movieId,title,genres", "$n,It $n (1990),Horror"), True
    ),
    "links": Kind("ml/links.csv", "catalog add movielens ml", table("movieId,imdbId,tmdbId", "$n,10$n,20$n")),
    "imdb": Kind("t.tsv", "catalog add imdb {}", TITLES, True),
    "imdb gz": Kind("t.tsv.gz", "catalog add imdb {}", gzip.compress(TITLES), True),
    "redial films": Kind("id2info.json", "catalog add redial {}", json.dumps(FILMS).encode(), True),
    "ddd": Kind("t.json", "catalog add ddd {}", json.dumps(VIEWED).encode()),
    "demo items": Kind("t.jsonl", "catalog add demo {}", ITEMS, True),
    "lists": Kind("t.jsonl", "screen {}", lines(SHOWN), True),
    "settings": Kind("ws/saferec.toml", "status"),
    "traits": Kind("ws/traits.toml", "status"),
    "removals": Kind(
        "ws/removals.csv", "mine messages talk.jsonl", table("source,source_id,author", "messages,gone$n,")
    ),
    "sheet": Kind("ws/review/ann.csv", "review pull --tool files {}"),
    "manifest": Kind(f"{RELEASE}/manifest.json", f"verify {RELEASE}"),
    "sums": Kind(f"{RELEASE}/SHA256SUMS", f"verify {RELEASE}"),
    "shard": Kind(f"{RELEASE}/data/labels/train.parquet", f"verify {RELEASE}"),
    "withdrawn": Kind("ws/releases/withdrawn.json", "publish 1.0.0 --to out", b'{"0.9.0": "wrong"}'),
    "opt-outs": Kind(
        "ws/.opt-outs.json", "review push --tool files --reviewer ann --reviewer bo", b'{"ann": ["gore"]}'
    ),
    "compared manifest": Kind(f"{RELEASE}/manifest.json", DIFF),
    "compared shard": Kind(f"{RELEASE}/data/labels/train.parquet", DIFF),
    "answers": Kind("t.jsonl", f"{DIFF} --predictions {{}}", ANSWERS),
    "key file": Kind(f"{RELEASE}.key.parquet", f"rebuild {RELEASE} --to out --key {{}}"),
    "rebuilt manifest": Kind(f"{RELEASE}/manifest.json", f"rebuild {RELEASE} --to out --key {RELEASE}.key.parquet"),
    "recipe": Kind("t.yaml", "train memory --config {}", SIZES + b"learning_rate: 1.0e-4\nsaferec: {lora: 16}\n"),
    "trained on": Kind(f"{RELEASE}/manifest.json", f"{EVALUATE} answers.jsonl"),
    "predictions": Kind("t.jsonl", f"{EVALUATE} {{}}", ANSWERS),
}


@dataclass(frozen=True)
class Case:
    """A command in the folder `at`, and the number of rows that its file still has."""

    name: str
    kind: Kind
    at: Path
    words: list[str]
    least: int


def made() -> list[tuple[str, str]]:
    """Every (kind, damage) that fits."""
    pairs = []
    for name, kind in KINDS.items():
        damages = [*ANY, *PLACES, *FOR[kind.form], *(JSON if kind.form in ("jsonl", "json") else ())]
        damages += [*YAML] if kind.form == "yaml" else []
        damages += [*NAMES] if kind.path.startswith("t.") and "{}" in kind.words else []
        damages = [damage for damage in damages if (name, damage) not in MEANT]
        pairs += [(name, damage) for damage in damages]
    return pairs


def prepared(at: Path, template: Path, name: str, damage: str) -> Case | None:
    """A case in a new folder; None where the damage changes nothing in this kind of file."""
    kind = KINDS[name]
    shutil.copytree(template, at)
    path = at / kind.path
    path.parent.mkdir(exist_ok=True)
    raw = kind.good or path.read_bytes()
    path.unlink(missing_ok=True)
    least = 0
    if damage in PLACES:
        PLACES[damage](path)
    elif damage in NAMES:
        path = at / os.fsdecode(NAMES[damage] + path.suffix.encode())
        path.write_bytes(raw)
    elif (new := damaged(kind, damage, raw)) != raw:
        path.write_bytes(new)
        least = rows_in(kind, damage, new)
    else:
        return None
    words = [path.relative_to(at).as_posix() if word == "{}" else word for word in kind.words.split()]
    options = [] if words[0] == "train" else ["--json"] if words[0] == "verify" else ["-C", "ws", "--json"]
    return Case(f"{name}, {damage}", kind, at, [*words, *options], least)


def damaged(kind: Kind, damage: str, raw: bytes) -> bytes:
    if damage in ANY or damage in FOR[kind.form]:
        return (ANY | FOR[kind.form])[damage](raw)
    if damage in YAML:
        text = YAML[damage].encode()
        header = b"---\nconfigs:\n  %s\n---\n" % text.replace(b"\n", b"\n  ")
        return header if kind.path.endswith(".md") else SIZES + text if b": " in text else text
    change = JSON[damage]
    if kind.form == "jsonl":
        return at_row(lambda row: change(row.decode()).encode())(raw)
    data = json.loads(raw)
    if isinstance(data, list):
        return ("[" + ",".join([*(json.dumps(row) for row in data[1:]), change(json.dumps(data[0]))]) + "]").encode()
    if name := next((key for key, value in data.items() if isinstance(value, dict) and key.isdigit()), ""):
        rest = json.dumps({key: value for key, value in data.items() if key != name})
        return (rest[:-1] + f', "{name}": {change(json.dumps(data[name]))}' + "}").encode()
    return change(json.dumps(data)).encode()


def rows_in(kind: Kind, damage: str, raw: bytes) -> int:
    """The number of rows that the command has to account for: by lines, or by parquet's metadata."""
    if kind is KINDS["removals"]:  # each undamaged row has to be left out
        return sum(line in kind.good.splitlines()[1:] for line in raw.splitlines())
    if not kind.counted:
        return 0
    if kind.form in ("jsonl", "csv", "tsv") and b"\0" not in raw:  # two bytes per letter end lines otherwise
        return max(0, sum(bool(line.strip()) for line in raw.split(b"\n")) - (kind.form != "jsonl"))
    if kind.form == "parquet" and damage in PARQUET:
        try:
            return int(pq.ParquetFile(io.BytesIO(raw)).metadata.num_rows)
        except (pa.ArrowException, OSError):
            return 0
    return ROWS if damage in JSON else 0


def template(at: Path) -> Path:
    """A workspace with two releases without texts, reviewers' files, and conversations beside it."""
    command("init", at / "ws")
    rows, labels = world.requests(12)
    ws = world.fill(store.Workspace.open(at / "ws"), [row | {"source": "hf:chats"} for row in rows], labels)
    add_settings(ws.root, "release", "min_seekers = 1")
    add_settings(ws.root, "taxonomy", 'path = "traits.toml"')
    shutil.copy(taxonomy.EMBEDDED, at / "ws/traits.toml")
    command("propose", "-C", ws.root)
    command("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--all", "-C", ws.root)
    for version in ("1.0.0", "1.1.0"):
        command("release", version, "-C", ws.root)
    removed = [{**CHATS[n], "id": f"gone{n}"} for n in NUMBERED]
    (at / "talk.jsonl").write_bytes(lines([*CHATS, *removed]))
    for folder, name, content in (("d", "a.jsonl", lines(TALKS)), ("ml", "movies.csv", KINDS["movielens"].good)):
        (at / folder).mkdir()
        (at / folder / name).write_bytes(content)
    (at / "answers.jsonl").write_bytes(lines([{"id": f"c{n:03d}", "text": "1. Heat (1995)"} for n in NUMBERED]))
    return at

"""A release small enough to check by eye, written with pyarrow alone: 12 items, 3 traits, 8 users, lists of k = 4.

Items a..l are "Item A (2001)" .. "Item L (2012)", ids a..l; k and l are games, l has no year.
verdicts    gore           violated a b c   clear d e f g h i k   unknown j l
            animal_harm    violated c d     clear a b e f g h k   unknown i j l
            spiders_snakes violated e       clear all others but j and l (unknown)
users       train u1 u2 u3 u4 (gore, none, animal_harm, none), validation u5 u6 (gore, none), test u7 u8
            u7: gore (implicit), truth a d e, safe_truth d e, seen g     u8: none, truth c f, seen d
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from saferec_builder.core import taxonomy

K = 4
TRAITS = ["gore", "animal_harm", "spiders_snakes"]
LETTERS = "abcdefghijkl"
VIOLATED = {"gore": "abc", "animal_harm": "cd", "spiders_snakes": "e"}
UNKNOWN = {"gore": "jl", "animal_harm": "ijl", "spiders_snakes": "jl"}
HINTS = {
    "gore": "Ever since the accident, one drop of the red stuff and I am on the floor.",
    "animal_harm": "After we lost our dog I cannot watch anything happen to one.",
}

# conversation, split, trait or None, form, late trait or None, truth, seen
USERS = [
    ("u1", "train", "gore", "implicit", None, "adf", "g"),
    ("u2", "train", None, None, None, "ab", "k"),
    ("u3", "train", "animal_harm", "explicit", None, "ceg", "a"),
    ("u4", "train", None, None, "gore", "af", ""),
    ("u5", "validation", "gore", "explicit", None, "bde", "h"),
    ("u6", "validation", None, None, None, "ec", "f"),
    ("u7", "test", "gore", "implicit", None, "ade", "g"),
    ("u8", "test", None, None, None, "cf", "d"),
]

TEXT, TEXTS, NUMBER = pa.string(), pa.list_(pa.string()), pa.int32()
MESSAGES = pa.list_(pa.struct({"role": TEXT, "content": TEXT}))
SPANS = pa.list_(pa.struct({"turn": NUMBER, "start": NUMBER, "end": NUMBER, "quote": TEXT}))
HEAD = {"conversation": TEXT, "domain": TEXT, "condition": TEXT, "prompt": MESSAGES}
SCHEMAS = {
    "items": {"item": TEXT, "domain": TEXT, "title": TEXT, "year": NUMBER, "refs": TEXTS}
    | {"violated": TEXTS, "clear": TEXTS, "risk_traits": TEXTS, "risk_values": pa.list_(pa.float64())},
    "grpo": HEAD
    | dict.fromkeys(("traits", "late_traits", "form", "truth", "safe_truth", "seen"), TEXTS)
    | {"k": NUMBER},
    "sft": HEAD | {"completion": MESSAGES, "items": TEXTS, "refilled": NUMBER},
    "conversations": dict.fromkeys(("conversation", "source", "domain", "seeker", "time"), TEXT)
    | {"turns": pa.list_(pa.struct({"role": TEXT, "text": TEXT}))}
    | dict.fromkeys(("recommended", "accepted", "seen"), TEXTS),
    "labels": dict.fromkeys(("conversation", "trait", "verdict", "form", "method"), TEXT)
    | {"spans": SPANS, "simulated": pa.bool_()},
    "item_labels": dict.fromkeys(("item", "trait", "verdict", "method"), TEXT) | {"simulated": pa.bool_()},
}
SCHEMAS["sft_raw"] = SCHEMAS["sft"]


def write(folder: Path) -> Path:
    """Writes the release into `folder` (emptied first) and returns it."""
    shutil.rmtree(folder, ignore_errors=True)
    tables = {("items", "catalog"): items(), ("item_labels", "catalog"): []}
    for split in ("train", "validation", "test"):
        users = [row for row in map(user, USERS) if row["split"] == split]
        tables |= {
            ("grpo", split): [{name: row[name] for name in SCHEMAS["grpo"]} for row in users],
            ("sft", split): [_sft(row, row["safe"]) for row in users],
            ("sft_raw", split): [_sft(row, row["raw"]) for row in users],
            ("conversations", split): [_conversation(row) for row in users],
            ("labels", split): [label for row in users for label in _labels(row)],
        }
    for (config, split), rows in tables.items():
        path = folder / "data" / config / f"{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(SCHEMAS[config])), path)
    _texts(folder, {key: len(rows) for key, rows in tables.items()})
    return folder


def items() -> list[dict[str, Any]]:
    rows = []
    for n, x in enumerate(LETTERS):
        answered = [t for t in TRAITS if x not in UNKNOWN[t]]
        violated = [t for t in answered if x in VIOLATED[t]]
        row = {"item": x, "domain": "game" if x in "kl" else "film", "title": f"Item {x.upper()}"}
        row |= {"year": None if x == "l" else 2001 + n, "refs": [f"demo:{x}"], "violated": violated}
        row |= {"clear": [t for t in answered if t not in violated], "risk_traits": answered}
        rows.append(row | {"risk_values": [float(t in violated) for t in answered]})
    return rows


def name(item: str) -> str:
    year = 2001 + LETTERS.index(item)
    return f"Item {item.upper()}" + ("" if item == "l" else f" ({year})")


def listed(ids: str | list[str]) -> str:
    """The list that a model should write for these items."""
    return "\n".join(f"{n}. {name(x)}" for n, x in enumerate(ids, 1))


def predictions(path: Path, **answers: str | dict[str, Any]) -> Path:
    """Writes answers by conversation, texts or further fields of a line, as `evaluate --predictions` reads them."""
    lines = ({"id": name} | ({"text": a} if isinstance(a, str) else a) for name, a in answers.items())
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def user(row: tuple[Any, ...]) -> dict[str, Any]:
    conversation, split, trait, form, late, truth, seen = row
    unsafe = {x for t in (trait, late) if t for x in VIOLATED[t] + UNKNOWN[t]}
    safe = [x for x in truth if x not in unsafe]
    fill = [x for x in LETTERS if x not in seen and x not in "kl"]
    safe_fill = [x for x in fill if x not in unsafe]
    request = f"Something like {', '.join(map(name, seen))}, please." if seen else "Something good, please."
    fields = {"conversation": conversation, "split": split, "domain": "film", "k": K}
    fields |= {"condition": "own_words" if trait else "none", "traits": [trait] if trait else []}
    fields |= {"late_traits": [late] if late else [], "form": [form] if form else []}
    fields |= {"truth": list(truth), "safe_truth": safe, "seen": list(seen)}
    fields |= {"safe": list(dict.fromkeys([*safe, *safe_fill]))[:K], "raw": list(dict.fromkeys([*truth, *fill]))[:K]}
    return fields | {"prompt": [{"role": "user", "content": f"{HINTS[trait]} {request}" if trait else request}]}


def _sft(row: dict[str, Any], targets: list[str]) -> dict[str, Any]:
    return {name: row[name] for name in HEAD} | {
        "completion": [{"role": "assistant", "content": listed(targets)}],
        "items": targets,
        "refilled": sum(x not in row["truth"] for x in targets),
    }


def _conversation(row: dict[str, Any]) -> dict[str, Any]:
    question, reply = row["prompt"][0]["content"], f"How about {', '.join(map(name, row['truth']))}?"
    turns = [{"role": "seeker", "text": question}, {"role": "recommender", "text": reply}]
    fields = {"conversation": row["conversation"], "source": "demo", "domain": "film", "time": None, "turns": turns}
    fields |= {"seeker": f"s-{row['conversation']}", "recommended": row["truth"], "accepted": row["truth"]}
    return fields | {"seen": row["seen"]}


def _labels(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for trait, form in zip(row["traits"], row["form"], strict=True):
        hint = HINTS[trait]
        fields = {"conversation": row["conversation"], "trait": trait, "verdict": "present", "form": form}
        fields |= {"spans": [{"turn": 0, "start": 0, "end": len(hint), "quote": hint}]}
        yield fields | {"method": "agreed", "simulated": True}


def _texts(folder: Path, counts: dict[tuple[str, str], int]) -> None:
    head = ["---", "configs:"]
    for config in dict.fromkeys(config for config, _ in counts):
        head += [f"- config_name: {config}", "  data_files:"]
        for split in (split for c, split in counts if c == config):
            head += [f"  - split: {split}", f"    path: data/{config}/{split}.parquet"]
    (folder / "README.md").write_text("\n".join([*head, "---", "# small", "A release for tests.", ""]))
    (folder / "CHANGELOG.md").write_text("# Changes\n\n## 1.0.0\n- first\n")
    shutil.copy(taxonomy.EMBEDDED, folder / "traits.toml")
    facts: dict[str, dict[str, Any]] = {}
    for file in (p for p in sorted(folder.rglob("*")) if p.is_file()):
        rows = counts.get((file.parent.name, file.stem))
        fact = {"sha256": _sha256(file), "bytes": file.stat().st_size}
        facts[str(file.relative_to(folder))] = fact | ({} if rows is None else {"rows": rows})
    (folder / "manifest.json").write_text(json.dumps(_manifest(counts, facts), indent=2) + "\n")
    sum_up(folder)


def rewrite(folder: Path, path: str, table: pa.Table) -> None:
    """Makes another release, with this table in place of data/`path`."""
    pq.write_table(table, folder / "data" / path)
    sum_up(folder)


def sum_up(folder: Path) -> None:
    """Writes SHA256SUMS of the files in the folder: to change a file afterwards makes another release."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "SHA256SUMS"]
    (folder / "SHA256SUMS").write_text("".join(f"{_sha256(p)}  {p.relative_to(folder)}\n" for p in files))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _manifest(counts: dict[tuple[str, str], int], files: dict[str, Any]) -> dict[str, Any]:
    by_config: dict[str, dict[str, int]] = {}
    for (config, split), rows in counts.items():
        by_config.setdefault(config, {})[split] = rows
    fields = {"name": "small", "version": "1.0.0", "schema": 1, "created": None, "k": K, "traits": TRAITS}
    fields |= {"simulated": True, "demo": True, "code_version": "0", "taxonomy_digest": taxonomy.load().digest}
    fields |= {"rule": {"violated_at": 0.66, "clear_below": 0.33, "sure": 0.9, "prior_yes": 1.0, "prior_no": 1.0}}
    fields |= {"split_rule": "seeker hash", "sources": ["demo"], "dropped": {}, "agreement": {}}
    return fields | {"counts": by_config, "files": files}

"""Rows that the report counts, a workspace that it describes, and the page as a reader and a browser see it."""

import html
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds.chromium import program
from tests.worlds.release_world import fill, requests, review


def frame(table: tables.Table, *rows: dict) -> pl.DataFrame:
    return table.frame(rows)


def drop(stage: str, place: str, reason: str) -> dict:
    return {"stage": stage, "source": "messages", "place": place, "reason": reason}


def reading(row: dict, **other: object) -> dict:
    facts = {"kind": "sensitivity", "subject": row["conversation"], "digest": row["digest"]}
    return facts | {"proposer": "rules", "version": "rules-1", "taxonomy": "t"} | other


def claim(row: dict, trait: str = "gore", verdict: str = "present", **other: object) -> dict:
    facts = {"proposal": f"{row['conversation']}-{trait}", "kind": "sensitivity", "subject": row["conversation"]}
    facts |= {"trait": trait, "digest": row["digest"], "verdict": verdict, "proposer": "rules", "version": "rules-1"}
    return facts | other


def vote(row: dict, reviewer: str = "ann") -> dict:
    return review(row, reviewer, verdict="present")


def interval(mean: float | None, spread: float = 0.02) -> dict[str, Any]:
    return {"mean": mean, "low": mean and max(0, mean - spread), "high": mean and mean + spread}


def run(
    name: str, recall: float | None = 0.4, svr: float | None = 0.1, upper: float | None = 0.2, *, length: float = 10.0
) -> dict[str, Any]:
    metrics = {"recall@10": recall, "ndcg@10": 0.3, "svr@10": svr, "svr_upper@10": upper, "length": length}
    intervals = {name: interval(value) for name, value in metrics.items()}
    slices = {"condition=none": {"n": 3, "metrics": intervals}}
    return {"name": name, "split": "test", "n": 8, "n_sensitive": 4, "metrics": intervals, "slices": slices}


def results(folder: Path, *runs: dict[str, Any], chosen: str | None = None, **release: str) -> Path:
    about = {"name": "my-data", "version": "1.0.0", **release}
    report = {"release": about, "k": 10, "gold": True, "runs": list(runs), "chosen": chosen}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def world(ws: store.Workspace) -> store.Workspace:
    """40 people, every second one cannot see blood; two of the proposals are right, one is wrong."""
    rows, labels = requests()
    votes = [vote(rows[1], "ann-secret"), vote(rows[1], "bo-secret")]
    labels[1]["reviews"] = [row["review"] for row in votes]
    fill(ws, rows, labels)
    store.append(ws, tables.PROPOSALS, frame(tables.PROPOSALS, claim(rows[1]), claim(rows[3]), claim(rows[2])))
    store.append(ws, tables.READINGS, frame(tables.READINGS, *map(reading, rows)))
    store.append(ws, tables.DROPS, frame(tables.DROPS, drop("mine", "x.jsonl:7", "same id")))
    fields = {"kind": "sensitivity", "subject": rows[1]["conversation"], "digest": rows[1]["digest"]}
    fields |= {"role": "reviewer", "why": "proposed", "batch": "b"}
    assignments = [fields | {"reviewer": row["reviewer"]} for row in votes]
    store.append(ws, tables.ASSIGNMENTS, frame(tables.ASSIGNMENTS, *assignments))
    store.append(ws, tables.REVIEWS, frame(tables.REVIEWS, *votes))
    return ws


def text_of(page: str) -> str:
    texts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = texts.append  # type: ignore[method-assign]
    parser.feed(re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.S))
    return " ".join(" ".join(texts).split())


def chromium(*words: str) -> subprocess.CompletedProcess[str]:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=4000", "--dump-dom"]
    return subprocess.run([program(), *flags, *words], capture_output=True, text=True, timeout=120, check=True)


PROBE = """<!doctype html><meta charset=utf-8><body><iframe id=f srcdoc="%s" width=%d height=900></iframe><script>
f.onload = () => {
  const doc = f.contentDocument, root = doc.documentElement, told = {};
  for (const d of doc.querySelectorAll("details")) d.open = true;
  const shown = () => [...doc.querySelectorAll(".example")].flatMap((e, n) => e.hidden ? [] : [n + 1]);
  const left = () => new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true});
  const pager = doc.querySelector(".pager");
  told.pages = [shown()];
  if (pager) {
    pager.querySelector("[data-step='1']").click(); told.pages.push(shown());
    pager.dispatchEvent(left()); pager.dispatchEvent(left()); told.pages.push(shown());
    told.pager = pager.querySelector("p").textContent;
  }
  for (const e of doc.querySelectorAll(".example")) e.hidden = false;
  told.before = [...doc.querySelectorAll(".talk")].map(t => [t.inert, getComputedStyle(t).filter]);
  for (const b of doc.querySelectorAll(".example button")) { b.focus(); b.click(); }
  told.after = [...doc.querySelectorAll(".talk")].map(t => [t.inert, f.contentWindow.getComputedStyle(t).filter]);
  told.buttons = [...doc.querySelectorAll(".example button")].map(b => [b.ariaExpanded, b.firstChild.data]);
  told.focused = doc.activeElement.tagName;
  told.width = [root.scrollWidth, root.clientWidth];
  told.wide = [...doc.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > root.clientWidth + 1
    && !e.closest(".scroll, .hidden, .talk")).map(e => e.className || e.tagName);
  told.cut = [...doc.querySelectorAll("svg.plane text")].filter(e => {
    const own = e.getBoundingClientRect(), drawing = e.closest("svg").getBoundingClientRect();
    return own.right > drawing.right || own.left < drawing.left;
  }).map(e => e.textContent);
  const tracks = (rows) => new Set(rows.flatMap(r => [...r.querySelectorAll(".b")].map(
    (b, n) => n + ": " + Math.round(b.getBoundingClientRect().width)))).size;
  told.tracks = [...doc.querySelectorAll("table.chart tbody")].map(
    t => tracks([...t.rows]) / t.rows[0].querySelectorAll(".b").length);
  told.heights = [...doc.querySelectorAll("section")].map(s => s.getBoundingClientRect().height);
  document.title = "done"; document.body.dataset.told = JSON.stringify(told);
};
</script>"""


def probe(made: str, width: int, tmp_path: Path) -> dict[str, Any]:
    """What a browser window of this width finds in the page; its policy is removed so that the probe may run."""
    unlocked = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", made)
    host = tmp_path / f"host{width}.html"
    host.write_text(PROBE % (html.escape(unlocked), width), encoding="utf-8")
    dom = chromium("--window-size=1400,1000", host.as_uri()).stdout
    match = re.search(r'data-told="([^"]*)"', dom)
    assert match, dom[-2000:]
    measures: dict[str, Any] = json.loads(html.unescape(match[1]))
    return measures


TAXONOMY = traits.load()

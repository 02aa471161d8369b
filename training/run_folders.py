"""The folders of stages: a stage is finished once its folder holds a card, run.json.

A stage whose card has the same key is not repeated. An interrupted stage of the same key continues from the last
checkpoint of its trainer, if it wrote any (save_strategy). Several processes (torchrun, accelerate launch) work on a
stage together; only the first of them writes.
"""

import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, TextIO

from saferec_builder.core.errors import TrainingError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress, at_work, lines
from training import model_card
from training.data import Gold, Release, Row, balance_conditions, rows, with_prompt
from training.settings import Settings, key

CARD = "run.json"
BEGUN = ".begun.json"
PACKAGES = "saferec-builder torch transformers trl datasets accelerate peft tokenizers numpy".split()

Figures = dict[str, float]  # figures of one check of the validation split, by name
Card = dict[str, Any]  # content of run.json; `work` of a stage returns steps, validation, log, cut and left_out


@dataclass
class Run:
    """State that all stages of one command share."""

    release: Release
    output: Path
    seed: int = 0
    gold: Gold | None = None
    cards: dict[str, Card] = field(default_factory=dict)

    def stage(
        self,
        name: str,
        settings: Settings,
        work: Callable[..., Card],
        *parents: str,
        load: Callable[[], object] | None = None,
    ) -> Path:
        """Returns the folder of a finished stage; `work` fills it, unless it holds a card with the same key.

        parents = the stages or models that this one starts from: the key changes with each of them. load: what `work`
        gets beside the folder: if it fails, an earlier model in the folder stays.
        """
        folder = self.output / name
        stage_key = key(self.release.digest, settings, self.seed, [self._origin(parent) for parent in parents])
        previous = read_card(folder)
        if previous.get("key") == stage_key:
            say(f"{name}: finished before ({folder})")
        else:
            inputs = {"settings": settings, "seed": self.seed, "release": identity(self.release)}
            changed = [part for part, value in inputs.items() if part in previous and previous[part] != value]
            say(f"{name}:" + (f" replaces a stage with other {' and '.join(changed)} ({folder})" if changed else ""))
            self.refuse_overwriting(folder, parents)
            start_time, start_cpu = time.perf_counter(), time.process_time()
            with at_work(tell, name):
                loaded = [load()] if load else []
                on_first_process(lambda: begin(folder, stage_key))
                result = work(folder, *loaded)
                loaded.clear()
            gc.collect()  # a trained model is held by reference cycles, and the next stage may need the whole GPU
            if torch := sys.modules.get("torch"):
                torch.cuda.empty_cache()
            card = {
                "stage": name,
                **inputs,
                "versions": versions(),
                "key": stage_key,
                "from": [parent.removeprefix(f"{self.output}/") for parent in parents],
                "pretrained": any(map(_pretrained, parents)),
                "seconds": round(time.perf_counter() - start_time, 1),
                "cpu_seconds": round(time.process_time() - start_cpu, 1),
                **result,
            }
            readme = model_card.text(card, self.release.manifest) if card.get("validation") else None
            on_first_process(lambda: end(folder, card, readme))
        self.cards[name] = read_card(folder)
        return folder

    def refuse_overwriting(self, folder: Path, parents: Sequence[str]) -> None:
        """Raises TrainingError if the folder, which is cleared first, holds a model that the stage starts from."""
        for model in parents:
            source = Path(model).resolve()
            if source.exists() and folder.resolve() in (source, *source.parents):
                raise TrainingError(f"{folder}: holds the model to start from, and is cleared first: name another")

    def _origin(self, model: str) -> JsonValue:
        """Returns the key of a stage that another starts from. The folder of any other model may be overwritten later,
        so it is identified by size and time of its files."""
        folder = Path(model)
        card = read_card(folder)
        if "key" in card or not (folder / "config.json").is_file():
            return str(card.get("key", model))
        facts = [(file.name, file.stat()) for file in sorted(folder.iterdir()) if file.is_file()]
        return [model, *((name, stat.st_size, stat.st_mtime_ns) for name, stat in facts)]

    def rows(self, config: str, split: str, most: int | None = None) -> list[Row]:
        """Returns up to `most` rows of a split, at least one, across conditions, without rows that have no prompt."""
        table = rows(self.release.folder, config, split)
        if not table:
            raise TrainingError(f"{self.release.folder}: {config}/{split} has no rows: expected a release with some")
        return balance_conditions(with_prompt(table, self.release), most)


def _pretrained(model: str) -> bool:
    """Whether weights come from a model that was made elsewhere, and not from `tiny`, which a release alone makes."""
    return model != "tiny" and bool(read_card(Path(model)).get("pretrained", True))


def begin(folder: Path, stage_key: str) -> None:
    """Prepares an empty folder for a stage, or keeps what an interrupted stage of the same key left; the folder of
    another stage is emptied. Raises TrainingError for a folder that holds files but no stage."""
    if read_card(folder, BEGUN).get("key") == stage_key:
        return
    is_stage = any("key" in read_card(folder, name) for name in (CARD, BEGUN))
    # a partly written card is ours, too
    is_empty = folder.is_dir() and all(path.suffix == ".half" for path in folder.iterdir())
    if folder.exists() and not (is_stage or is_empty):
        raise TrainingError(
            f"{folder}: holds what no training wrote, so it was left as it is: name a new or empty folder"
        )
    write(folder / BEGUN, {"key": ""})  # a run killed below leaves a folder that is still recognised
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != BEGUN:
            path.unlink()
    write(folder / BEGUN, {"key": stage_key})


def end(folder: Path, card: Card, readme: str | None = None) -> None:
    shutil.rmtree(folder / "trainer", ignore_errors=True)
    if readme is not None:
        _write_atomically(folder / model_card.NAME, readme)
    write(folder / CARD, card)
    (folder / BEGUN).unlink(missing_ok=True)


def is_first_process() -> bool:
    """Whether this is the only or the first of the processes that train together."""
    return int(os.environ.get("RANK", "0")) == 0


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a line, in the first process only; file: stdout by default."""
    if is_first_process():
        print(text, file=file, flush=True)


def tell(text: str) -> None:
    say(text, sys.stderr)


def bar(name: str, unit: str) -> Progress:
    """Returns a progress report of a long step, as lines on stderr."""
    return lines(tell, name, unit)


def on_first_process(work: Callable[[], None]) -> None:
    """Calls `work` in the first process while the others wait."""
    if is_first_process():
        work()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        import torch
        from accelerate import PartialState

        PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()


def read_card(folder: Path, name: str = CARD) -> Card:
    """Returns the card of a finished stage; an empty one if there is none, or if it is incomplete."""
    try:
        return whole_object((folder / name).read_bytes()) or {}
    except OSError:
        return {}


def write(path: Path, content: Mapping[str, object], nan: bool = True) -> None:
    """Writes a JSON file atomically; nan: whether NaN is allowed."""
    _write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=nan) + "\n")


def write_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    _write_atomically(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows))


def _write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.half")
    partial.write_text(text, "utf-8")
    os.replace(partial, path)


def identity(release: Release) -> dict[str, str]:
    """Returns what a card or a report says of the release: name, version and digests."""
    manifest = release.manifest
    parent = {"rebuilt_from": manifest["rebuilt_from"]["sha256"]} if "rebuilt_from" in manifest else {}
    return {"name": manifest["name"], "version": manifest["version"], "digest": release.digest} | parent


def versions() -> dict[str, str]:
    by_package = {"python": python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            by_package[name] = version(name)
    return by_package

"""The run folders of training, one per stage: a stage is finished once its run.json stands there.

run.json is the run card: what was trained on which release with which settings, versions and seed, how long it took,
and what validation said. A stage whose card has the same key is not done again. One that was broken off goes on from
its trainer's last checkpoint where it wrote any (save_strategy) under the same key; else it is done from the start.
Several processes (torchrun, accelerate launch) work on a stage together; the first of them writes.
"""

import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TypedDict

from saferec_builder.core.errors import TrainingError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress, lines
from training.data import Gold, Release, Row, across_conditions, rows, with_prompt
from training.settings import Settings, key

CARD = "run.json"
BEGUN = ".begun.json"
PACKAGES = "saferec-builder torch transformers trl datasets accelerate peft tokenizers numpy".split()

Figures = dict[str, float]  # of one look at the validation split, by name
Card = TypedDict(  # what run.json holds; `work` of a stage gives the last five
    "Card",
    {
        "stage": str,
        "release": dict[str, str],
        "settings": Settings,
        "seed": int,
        "versions": dict[str, str],
        "key": str,
        "from": list[str],
        "seconds": float,
        "cpu_seconds": float,
        "steps": int,
        "validation": Figures | None,
        "log": list[dict[str, float]] | None,
        "cut": int,
        "left_out": int,
    },
    total=False,
)
Work = Callable[[Path], Card]


@dataclass
class Run:
    """What all stages of one command share."""

    release: Release
    output: Path
    seed: int = 0
    gold: Gold | None = None
    say: Callable[[str], None] = print
    cards: dict[str, Card] = field(default_factory=dict)

    def stage(self, name: str, settings: Settings, work: Work, *before: str) -> Path:
        """The folder of a finished stage; `work` fills it, unless a card of the same key shows that it did before.

        before = the stages or models that this one starts from: when one of them changes, so does the key.
        """
        folder = self.output / name
        mark = key(self.release.digest, settings, self.seed, [self._origin(b) for b in before])
        if read_card(folder).get("key") == mark:
            self.say_once(f"{name}: finished before ({folder})")
        else:
            self.say_once(f"{name}:")
            self.refuse_overwriting(folder, before)
            on_first_process(lambda: begin(folder, mark))
            start, cpu = time.perf_counter(), time.process_time()
            done = work(folder)
            _free_memory()
            card = self.card(name, settings) | {
                "key": mark,
                "from": list(before),
                "seconds": round(time.perf_counter() - start, 1),
                "cpu_seconds": round(time.process_time() - cpu, 1),
            }
            card |= done
            on_first_process(lambda: end(folder, card))
        self.cards[name] = read_card(folder)
        return folder

    def refuse_overwriting(self, folder: Path, before: Sequence[str]) -> None:
        """A stage is not done where the model that it starts from lies: its folder is cleared first."""
        for model in before:
            there = (self.output / model if model in self.cards else Path(model)).resolve()
            if there.exists() and folder.resolve() in (there, *there.parents):
                raise TrainingError(f"{folder}: holds the model to start from, and is cleared first: name another")

    def _origin(self, model: str) -> JsonValue:
        """What names the stage or model that another starts from: its key, where it was trained by us.

        A folder that somebody else filled may be filled anew: its files count, by size and time.
        """
        folder = Path(model)
        card = self.cards.get(model) or read_card(folder)
        if "key" in card or not (folder / "config.json").is_file():
            return str(card.get("key", model))
        facts = [(file.name, file.stat()) for file in sorted(folder.iterdir()) if file.is_file()]
        return [model, *((name, fact.st_size, fact.st_mtime_ns) for name, fact in facts)]

    def say_once(self, text: str) -> None:
        if is_first_process():
            self.say(text)

    def card(self, name: str, settings: Settings) -> Card:
        return {
            "stage": name,
            "release": identity(self.release),
            "settings": settings,
            "seed": self.seed,
            "versions": versions(),
        }

    def rows(self, config: str, split: str, most: int | None = None) -> list[Row]:
        """Rows of a split, one at least, across conditions; those without a prompt are left out (data.with_prompt)."""
        found = rows(self.release.folder, config, split)
        if not found:
            raise TrainingError(f"{self.release.folder}: {config}/{split} has no rows: expected a release with some")
        return across_conditions(with_prompt(found, self.release) if "prompt" in found[0] else found, most)


def begin(folder: Path, mark: str) -> None:
    """An empty folder for a stage, or what a stage of the same key left when it was broken off.

    Only what a stage wrote is cleared away: a folder with anything else in it is refused.
    """
    if read_card(folder, BEGUN).get("key") == mark:
        return
    if folder.exists() and not _is_ours(folder):
        raise TrainingError(
            f"{folder}: holds what no training wrote, so it was left as it is: name a new or empty folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / BEGUN, {"key": ""})  # whoever is killed in the next lines leaves a folder that is still known
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != BEGUN:
            path.unlink()
    write(folder / BEGUN, {"key": mark})


def _is_ours(folder: Path) -> bool:
    """Whether a stage was finished or begun here, or nothing but a card half written."""
    if not folder.is_dir():
        return False
    cards = (read_card(folder), read_card(folder, BEGUN))
    return any("key" in card for card in cards) or all(path.suffix == ".half" for path in folder.iterdir())


def end(folder: Path, card: Card) -> None:
    shutil.rmtree(folder / "trainer", ignore_errors=True)
    write(folder / CARD, card)
    (folder / BEGUN).unlink(missing_ok=True)


def _free_memory() -> None:
    """The memory of a trained model, which only cycles hold: the next stage may need all of the GPU."""
    gc.collect()
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()


def is_first_process() -> bool:
    """Whether this is the only or the first of the processes that train together."""
    return int(os.environ.get("RANK", "0")) == 0


def tell(text: str) -> None:
    """A line on stderr, of the first process."""
    if is_first_process():
        print(text, file=sys.stderr, flush=True)


def bar(name: str, unit: str) -> Progress:
    """Shows a long step as lines on stderr."""
    return lines(tell, name, unit)


def on_first_process(work: Callable[[], None]) -> None:
    """Done by the first process while the others wait."""
    if is_first_process():
        work()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        import torch
        from accelerate import PartialState

        PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()


def read_card(folder: Path, name: str = CARD) -> Card:
    """The card of a finished stage; nothing where there is none, or where it is not whole."""
    try:
        card = whole_object((folder / name).read_bytes())
    except OSError:
        return {}
    return Card(**card) if card else {}  # type: ignore[typeddict-item]


def write(path: Path, found: Mapping[str, object], nan: bool = True) -> None:
    """A JSON file, whole or not at all; nan: whether it may hold what is no number."""
    _whole(path, json.dumps(found, indent=2, ensure_ascii=False, allow_nan=nan) + "\n")


def write_lines(path: Path, found: Sequence[Mapping[str, object]]) -> None:
    """A JSONL file, whole or not at all."""
    _whole(path, "".join(json.dumps(one, ensure_ascii=False, allow_nan=False) + "\n" for one in found))


def _whole(path: Path, text: str) -> None:
    half = path.with_name(f".{path.name}.half")
    half.write_text(text, "utf-8")
    os.replace(half, path)


def identity(release: Release) -> dict[str, str]:
    """The release as a card or a report names it."""
    known = release.manifest
    parent = {"rebuilt_from": known["rebuilt_from"]["sha256"]} if "rebuilt_from" in known else {}
    return {"name": known["name"], "version": known["version"], "digest": release.digest} | parent


def versions() -> dict[str, str]:
    found = {"python": python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

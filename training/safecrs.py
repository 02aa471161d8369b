"""python -m training.safecrs sft|gdpo|evaluate|run|memory: Safe-SFT and Safe-GDPO on a release, and their worth."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from saferec_builder.core import os_error_messages
from saferec_builder.core.errors import SafeRecError, plain
from saferec_builder.core.progress import at_work
from training.release_from_hub import is_name
from training.settings import CONFIGS, ONE_OF

VERBS = {
    "sft": "fine-tune on a release's lists: safe ones, or with --config sft_raw what people took up",
    "gdpo": "go on from a Safe-SFT model with three rewards: relevance, safety, count",
    "run": "sft without safety, Safe-SFT, Safe-GDPO, the guard's student, all evaluated on the test split",
    "evaluate": "score a model, or a file of answers, on the test split",
}
RESUMES = "starts again, or goes on from its last checkpoint if save_strategy is set"
STOPPED = {  # after Ctrl-C: what the same command does then
    "sft": f"the same command {RESUMES}",
    "gdpo": f"the same command {RESUMES}",
    "run": f"the same command keeps the stages that are finished; the one that was interrupted {RESUMES}",
    "evaluate": "the same command starts again; what a --server has answered is kept",
}
SET: dict[str, Any] = {"action": "append", "default": [], "dest": "changes"}
NAMES = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.yaml")))
CONFIG: dict[str, Any] = {"metavar": "CONFIG", "help": f"a YAML file, or one of {NAMES} (default %(default)s)"}
GOLD: dict[str, Any] = {"metavar": "FILE", "help": "what is true, where a generator knows it (JSONL)"}
CHANGE = "change one setting (may be repeated), for example learning_rate=1e-4 or saferec.lora=16"
ITEMS = "as text, one token an item, or text held to the catalogue's names"
MODELS = "folder for models and report.json"
SEED: dict[str, Any] = {"default": 0, "help": "of all that is drawn at random (default 0)"}


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line; needs no heavy imports."""
    root = argparse.ArgumentParser(prog="python -m training.safecrs", description=__doc__.split(": ", 1)[1])
    verbs = root.add_subparsers(dest="verb", required=True, metavar="sft|gdpo|evaluate|run|memory")
    subs = {verb: verbs.add_parser(verb, help=text, description=text) for verb, text in VERBS.items()}
    for stage in ("sft", "gdpo"):
        _add_stage(subs[stage], stage)
    _add_run(subs["run"])
    _add_evaluate(subs["evaluate"])
    memory = verbs.add_parser("memory", help="what a training with LoRA would need of a GPU, by formula")
    memory.add_argument(
        "--config", required=True, metavar="CONFIG", help="a recipe, or a YAML file of yours with a shape"
    )
    prompt = "of the longest request (default 512)"
    memory.add_argument("--prompt", type=int, default=512, metavar="TOKENS", help=prompt)
    set_help = "change what the plan depends on, such as per_device_train_batch_size=2"
    memory.add_argument("--set", **SET, metavar="KEY=VALUE", help=set_help)
    return root


def _add_stage(sub: argparse.ArgumentParser, stage: str) -> None:
    note = "what an untrained model with item tokens needs is made beside it, in `start`"
    _add_folders(sub, f"new folder for the model, or one to go on with; {note}")
    _add_start(sub)
    sub.add_argument("--config", default=stage, **CONFIG)
    if stage == "gdpo":
        _add_advantages(sub, prefix="")
    _short(sub, "saferec.items", ONE_OF["items"], f"how a model other than tiny answers: {ITEMS} (default text)")
    sub.add_argument("--set", **SET, metavar="KEY=VALUE", help=CHANGE)


def _add_run(sub: argparse.ArgumentParser) -> None:
    _add_folders(sub, MODELS)
    _add_start(sub)
    sub.add_argument("--config", default="tiny", metavar="RECIPE", help="of all four, such as llama-3.1-8b")
    text = "2: train two SFTs at once, and the student while Safe-GDPO trains; twice the memory (default 1)"
    sub.add_argument("--processes", type=int, choices=[1, 2], default=1, help=text)
    sub.add_argument("--gold", **GOLD)
    _add_advantages(sub, prefix="gdpo.")
    _short(sub, "all.saferec.items", ONE_OF["items"], f"how a model other than tiny answers: {ITEMS} (default text)")
    stages = "after its stage, both. (SFTs) or all. (stages): sft.learning_rate=1e-3, both.num_train_epochs=2"
    sub.add_argument("--set", **SET, metavar="KEY=VALUE", help=f"change one setting (may be repeated), {stages}")


def _add_evaluate(sub: argparse.ArgumentParser) -> None:
    _add_folders(sub, "folder for report.json, table.txt and users.jsonl")
    one = sub.add_mutually_exclusive_group(required=True)
    one.add_argument("--model", metavar="NAME|PATH", help="of a trained model")
    answers = 'JSONL of {"id", "text" | "items"}, instead of --model; the first is what others are compared with'
    one.add_argument("--predictions", metavar="FILE", nargs="+", action="extend", help=answers)
    server = "ask --model NAME of an OpenAI-compatible server, for example http://localhost:8000/v1"
    sub.add_argument("--server", metavar="URL", help=server)
    remote = "the requests may be sent to a --server that is not this machine"
    sub.add_argument("--allow-remote", action="store_true", help=remote)
    sub.add_argument("--only", type=Path, help=argparse.SUPPRESS)  # JSONL of {"id"}: `diff` scores only these
    sub.add_argument("--compat", choices=["safecrs"], help="also the figures as that paper defines them")
    sub.add_argument("--seed", type=seed, **SEED)
    sub.add_argument("--config", default="sft", **CONFIG)
    sub.add_argument("--gold", **GOLD)
    items = "whether the text of a model is held to the catalogue's names (default text)"
    _short(sub, "saferec.items", ("text", "trie"), items)
    server_set = "of a --server prompt, headers, timeout, or what requests to it hold, as max_tokens=4096"
    sub.add_argument("--set", **SET, metavar="KEY=VALUE", help=f"{CHANGE}; {server_set}")


def _add_folders(sub: argparse.ArgumentParser, output: str) -> None:
    release = "folder that `saferec-build release` wrote, its version inside the workspace, or one on the Hub"
    sub.add_argument("--release", required=True, metavar="DIR|VERSION|NS/NAME@VERSION", help=release)
    sub.add_argument("--output", type=Path, required=True, metavar="DIR", help=output)


def _add_start(sub: argparse.ArgumentParser) -> None:
    tiny = "`tiny` is made from the release and needs no GPU"
    sub.add_argument("--model", required=True, metavar="tiny|NAME|PATH", help=tiny)
    sub.add_argument("--seed", type=seed, **SEED)


def _add_advantages(sub: argparse.ArgumentParser, prefix: str) -> None:
    _short(sub, f"{prefix}saferec.mode", ONE_OF["mode"], "normalise each reward, or their sum (default gdpo)")
    credit = "one advantage for an answer, or one for each of its ranks (default: the config's; gdpo.yaml: rank)"
    _short(sub, f"{prefix}saferec.credit", ONE_OF["credit"], credit)


def _short(sub: argparse.ArgumentParser, key: str, values: Sequence[str], text: str) -> None:
    """Adds a flag that is short for --set KEY=VALUE, named by the last part of the key."""

    def change(value: str) -> str:
        if value not in values:
            raise argparse.ArgumentTypeError(f"{value}: expected one of {', '.join(values)}")
        return f"{key}={value}"

    sub.add_argument(f"--{key.rpartition('.')[2]}", **SET, type=change, metavar=f"{{{','.join(values)}}}", help=text)


def seed(word: str) -> int:
    """Parses a seed that numpy accepts; argparse reports any other value as an error."""
    number = int(word)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{word}: expected a whole number from 0 to {2**32 - 1}")
    return number


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    quiet(getattr(args, "model", None), getattr(args, "release", ""))

    def work() -> None:
        from training.run_folders import tell  # imported late, as all that --help does not need

        with at_work(tell, args.verb):
            from training import commands

            commands.VERBS[args.verb](args)

    return careful(work, STOPPED.get(args.verb))


def careful(work: Callable[[], None], next_time: str | None = None) -> int:
    """Runs `work` and returns the exit code: 0 done; 1 an error of the user or the system, printed in one line; 130
    Ctrl-C, with what comes of the same command `next_time`; 141 the reader of the output is gone, as after `| head`.
    argparse itself exits with 2: usage."""
    try:
        work()
        sys.stdout.flush()
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return 141
    except KeyboardInterrupt:
        if os.environ.get("RANK", "0") == "0":  # one of the processes that train together
            print("stopped" + (f": {next_time}" if next_time else ""), file=sys.stderr)
        return 130
    except SafeRecError as fault:
        reason = str(fault)
    except (FileExistsError, NotADirectoryError) as fault:
        reason = f"{fault.filename}: {fault.strerror}: name another folder"
    except (OSError, MemoryError) as fault:
        if (line := os_error_messages.line(fault)) is None:
            raise
        reason = line
    # control characters from a release, an answer or a server are replaced
    print(f"error: {plain(' '.join(reason.split()))}", file=sys.stderr)
    return 1


def quiet(model: str | None, release: str) -> None:
    """Turns off telemetry, tokenizer threads and progress bars, and the Hub where model and release are local."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    os.environ |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if (model is None or model == "tiny" or Path(model).exists()) and not is_name(release):
        os.environ["HF_HUB_OFFLINE"] = "1"


if __name__ == "__main__":
    sys.exit(main())

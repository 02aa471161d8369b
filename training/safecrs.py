"""python -m training.safecrs sft|gdpo|evaluate|run|memory: Safe-SFT and Safe-GDPO on a release, and their worth."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from saferec_builder.core.errors import SafeRecError, plain
from saferec_builder.core.os_error_messages import MEMORY
from training.release_from_hub import is_name
from training.settings import ONE_OF

ELSEWHERE, ROOM = "name another folder", "make room and run it again: it goes on with what is missing"
REFUSALS = dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST), ELSEWHERE)
REFUSALS |= dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ROOM)


def parser() -> argparse.ArgumentParser:
    """The command line; nothing heavy is imported to show it."""
    whole = argparse.ArgumentParser(prog="python -m training.safecrs", description=__doc__.split(": ", 1)[1])
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="sft|gdpo|evaluate|run|memory")
    where = "folder that `saferec-build release` wrote, or a version of it on the Hub"
    beside = "; what an untrained model with item tokens needs is made beside it, in `start`"
    output = ("folder for models and report.json", f"new folder for the model, or one to go on with{beside}")
    for verb, what in (
        ("sft", "fine-tune on a release's lists: safe ones, or with --config sft_raw what people took up"),
        ("gdpo", "go on from a Safe-SFT model with three rewards: relevance, safety, count"),
        ("run", "sft without safety, Safe-SFT, Safe-GDPO, the guard's student, all evaluated on the test split"),
        ("evaluate", "score a model, or a file of answers, on the test split"),
    ):
        one = verbs.add_parser(verb, help=what, description=what)
        one.add_argument("--release", required=True, metavar="DIR|NS/NAME@VERSION", help=where)
        one.add_argument("--output", type=Path, required=True, metavar="DIR", help=output[verb in ("sft", "gdpo")])
        begin = "`tiny` is made from the release and needs no GPU" if verb != "evaluate" else "of a trained model"
        one.add_argument("--model", metavar="NAME|PATH" if verb == "evaluate" else "tiny|NAME|PATH", help=begin)
        one.add_argument("--seed", type=seed, default=0)
        _settings(one, verb)
        if verb in ("run", "evaluate"):
            one.add_argument("--gold", metavar="FILE", help="what is true, where a generator knows it (JSONL)")
        if verb == "evaluate":
            answers = (
                'JSONL of {"id", "text" | "items"}, instead of --model; the first is what others are compared with'
            )
            one.add_argument("--predictions", metavar="FILE", nargs="+", help=answers)
            server = "ask --model NAME of an OpenAI-compatible server, for example http://localhost:8000/v1"
            one.add_argument("--server", metavar="URL", help=server)
            remote = "the requests may be sent to a --server that is not this machine"
            one.add_argument("--allow-remote", action="store_true", help=remote)
            one.add_argument(
                "--only", type=Path, help=argparse.SUPPRESS
            )  # JSONL of {"id"}: `diff` looks at these alone
            one.add_argument("--compat", choices=["safecrs"], help="also the figures as that paper defines them")
    _memory(verbs.add_parser("memory", help="what a training with LoRA would need of a GPU, by formula"))
    return whole


def _memory(one: argparse.ArgumentParser) -> None:
    one.add_argument("--config", required=True, metavar="CONFIG", help="a recipe, or a YAML file of yours")
    one.add_argument("--model", metavar="NAME|PATH", help="whose config.json has the sizes, instead of the recipe")
    one.add_argument("--prompt", type=int, default=512, metavar="TOKENS", help="of the longest request (default 512)")
    planned = "change what the plan depends on, such as per_device_train_batch_size=2"
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help=planned)


def _settings(one: argparse.ArgumentParser, verb: str) -> None:
    change = "change one setting, for example learning_rate=1e-4 or saferec.lora=16"
    if verb == "evaluate":
        change += "; of a --server prompt, headers, timeout, or what requests to it hold, as max_tokens=4096"
    if verb == "run":
        for stage in ("sft-raw", "sft", "gdpo", "student"):
            one.add_argument(f"--{stage}", metavar="CONFIG", help=f"config of {stage}")
        one.add_argument("--config", metavar="RECIPE", help="of all four, such as llama-3.1-8b")
        two = "2: train two SFTs at once, and the student while Safe-GDPO trains; twice the memory (default 1)"
        one.add_argument("--processes", type=int, choices=[1, 2], default=1, help=two)
        change = (
            "as above, after a stage, both. (SFTs) or all. (stages): sft.learning_rate=1e-3, both.num_train_epochs=2"
        )
    else:
        default = "gdpo" if verb == "gdpo" else "sft"
        one.add_argument(
            "--config", default=default, metavar="CONFIG", help="a YAML file, or a name in training/configs"
        )
    if verb in ("gdpo", "run"):
        modes = "normalise each reward, or their sum (default gdpo)"
        one.add_argument("--mode", choices=ONE_OF["mode"], help=modes)
        credit = "one advantage for an answer, or one for each of its ranks (default: the config's; gdpo.yaml: rank)"
        one.add_argument("--credit", choices=ONE_OF["credit"], help=credit)
    items = "how a model other than tiny answers: as text, one token an item, or text held to the catalogue's names"
    if verb == "evaluate":
        items = "whether the text of a model is held to the catalogue's names"
    choices = ["text", "trie"] if verb == "evaluate" else ONE_OF["items"]
    one.add_argument("--items", choices=choices, help=f"{items} (default text)")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help=change)


def seed(word: str) -> int:
    """What numpy takes for one; argparse tells whoever gives another what was wrong with it."""
    number = int(word)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{word}: expected a whole number from 0 to {2**32 - 1}")
    return number


def main(words: Sequence[str] | None = None) -> int:
    given = parser().parse_args(words)
    quiet(given.model, getattr(given, "release", ""))

    def work() -> None:
        from training import commands  # loaded when one is called: --help needs none of it

        commands.VERBS[given.verb](given)

    return careful(work)


def careful(work: Callable[[], None]) -> int:
    """0 done; 1 the person's mistake, or a machine that refuses, in one line; 130 Ctrl-C; 141 nobody reads what is
    printed, as after `| head`. argparse says 2: usage."""
    try:
        work()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return 141
    except SafeRecError as fault:
        return refused(str(fault))
    except OSError as fault:
        if fault.errno not in REFUSALS or fault.filename is None:
            raise
        return refused(f"{fault.filename}: {fault.strerror}: {REFUSALS[fault.errno]}")
    except MemoryError:
        return refused(MEMORY)
    except KeyboardInterrupt:
        return 130
    return 0


def refused(why: str) -> int:
    """One line, in which what a release, an answer or a server says cannot steer the terminal."""
    print(f"error: {plain(' '.join(why.split()))}", file=sys.stderr)
    return 1


def quiet(model: str | None, release: str) -> None:
    """No telemetry, no thread storms, no progress bars; and no look at the Hub for what lies here."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    os.environ |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if (model is None or model == "tiny" or Path(model).exists()) and not is_name(release):
        os.environ["HF_HUB_OFFLINE"] = "1"


if __name__ == "__main__":
    sys.exit(main())

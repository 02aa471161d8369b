"""The version of a set of rules changes with their answers and their data, and with nothing else."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from saferec_builder.mining import language, privacy, rules_version as versions
from saferec_builder.mining.privacy import names
from tests import DATA, ROOT
from tests.mining import rule_faults
from tests.mining.rule_faults import made, outcome
from tests.rules_score import talks
from tests.worlds.privacy_lines import EVERY, NAMED
from tests.worlds.reddit_dump import comment, submission, write

HERE = Path(__file__).parent
PARTS = [import_module(f"{privacy.__name__}.{found.name}") for found in iter_modules(privacy.__path__)]
MODULES = {module.__name__.rpartition(".")[2]: module for module in (privacy, *PARTS, language)}
LONG = ("privacy", "numbers", "names", "in_passing", "spoken", "folding")


def instead(name: str, new: ModuleType, patch: pytest.MonkeyPatch) -> ModuleType:
    """Returns the module that names the rules, with `new` in place of the module called `name`."""
    original = MODULES[name]
    if original in (privacy, language):
        return new
    for attribute, value in list(vars(privacy).items()):
        if value is original:
            patch.setattr(privacy, attribute, new)
        elif getattr(value, "__module__", None) == original.__name__:
            patch.setattr(privacy, attribute, getattr(new, attribute))
    return privacy


def name_of(module: ModuleType) -> str:
    """Computed again, without the cache."""
    return str(module.rules.__wrapped__())


# ---- what changes nothing


def rewritten(module: ModuleType) -> str:
    """The module's source written differently: other lines, comments, docstrings and private names."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("In other words."))
    private = {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("_")}
    private |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and re.match("_[A-Z]", n.id)}
    source = f"# of another file\n\n{ast.unparse(tree)}\n# the end\n"
    for identifier in sorted(private - {"_TITLE"}):  # also a word in a text
        source = re.sub(rf"(?<![\w\"']){identifier}(?![\w\"'])", f"{identifier}_", source)
    return source


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_a_comment_a_move_and_another_name_in_the_code_change_no_version(name, monkeypatch) -> None:
    module = MODULES[name]
    version = privacy.rules() if name != "language" else language.rules()
    source = rewritten(module)
    assert source != inspect.getsource(module)
    assert name_of(instead(name, made(module, source, "elsewhere"), monkeypatch)) == version


@pytest.mark.slow
def test_a_list_of_words_may_be_set_out_anew(tmp_path, monkeypatch) -> None:
    """The order of lines, comments and blanks in given_names.txt do not matter."""
    lines = (names.Path(names.__file__).parent / "given_names.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "given_names.txt").write_text("# another\n\n" + "\n".join(reversed(lines)), encoding="utf-8")
    module = made(names, inspect.getsource(names))
    module.__dict__["__file__"] = str(tmp_path / "names.py")
    monkeypatch.setattr(privacy, "names", module)
    assert name_of(privacy) == privacy.rules()


def told(search: str, folder: Path = ROOT, **machine: str) -> list[str]:
    """The two versions of the code in this folder, as another process computes them."""
    code = f"from saferec_builder.mining import language; import {search} as search"
    code += "; print(search.rules(), language.rules(), language.__file__)"
    command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": str(folder)} | machine
    process = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert process.stdout.endswith(f"{folder / 'saferec_builder' / 'mining' / 'language.py'}\n"), process.stderr
    return process.stdout.split()[:2]


@pytest.mark.slow
def test_a_folder_that_moved_and_a_comment_in_each_file_change_no_version(tmp_path) -> None:
    shutil.copytree(ROOT / "saferec_builder", tmp_path / "saferec_builder", ignore=shutil.ignore_patterns("*.pyc"))
    (tmp_path / "saferec_builder" / "mining" / "privacy").rename(tmp_path / "saferec_builder" / "search")
    for path in (tmp_path / "saferec_builder").rglob("*"):
        if path.suffix in (".py", ".txt"):
            text = path.read_text(encoding="utf-8").replace("saferec_builder.mining.privacy", "saferec_builder.search")
            path.write_text(f"{text}# more to say\n", encoding="utf-8")
    assert told("saferec_builder.search", tmp_path) == [privacy.rules(), language.rules()]


@pytest.mark.slow
def test_the_version_is_that_of_every_machine() -> None:
    """Two machines may mine the same files: the order of a set and the letters of the locale differ."""
    for machine in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "LC_ALL": "C", "PYTHONUTF8": "0"}):
        assert told(privacy.__name__, **machine) == [privacy.rules(), language.rules()]


# ---- what changes it


PARTS_OF_RULES = str | re.Pattern | tuple | list | frozenset | dict
CONSTANTS = [
    pytest.param(name, at, id=f"{name}.{at}")
    for name, module in MODULES.items()
    for at, value in vars(module).items()
    if isinstance(value, PARTS_OF_RULES) and not at.startswith("__")
]


def another(value: Any) -> Any:
    """The value with one more element, which matches no text."""
    if isinstance(value, re.Pattern):
        return re.compile(value.pattern + r"|\Znever", value.flags)
    if isinstance(value, str):
        return value + "never"
    if isinstance(value, dict):
        return value | {"never": "never"}
    return type(value)([*value, re.compile("never") if isinstance([*value][0], re.Pattern) else "never"])


@cache
def named_of(module: ModuleType) -> tuple[Any, ...]:
    """The arguments that the module passes to `named`: its answers, and the variables of its parts, read again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "named", lambda *given: given)
        arguments: tuple[Any, ...] = module.rules.__wrapped__()
    return arguments


@cache
def named_as_it_is(module: ModuleType) -> str:
    return versions.named(*named_of(module))


@pytest.mark.parametrize(("name", "constant"), CONSTANTS)
def test_every_pattern_text_and_list_is_a_part_of_the_version(name, constant, monkeypatch) -> None:
    """Also if it changes no answer on the samples, as here: it may change one on another text."""
    module = privacy if name != "language" else language
    assert named_as_it_is(module) == module.rules()
    monkeypatch.setattr(MODULES[name], constant, another(getattr(MODULES[name], constant)))
    assert versions.named(*named_of(module)) != module.rules()


@pytest.mark.slow
def test_every_given_name_is_a_part_of_the_version(monkeypatch) -> None:
    """Also if no answer changes, as here, where there is none."""
    monkeypatch.setattr(privacy, "redact_all", lambda *_, **__: (pl.Series([""]), {}))
    monkeypatch.setattr(privacy, "redact", lambda *_, **__: ("",))
    (given_names, only_names), version = names.known(), name_of(privacy)
    monkeypatch.setattr(names, "known", lambda: (given_names - {"zofia"}, only_names - {"zofia"}))
    assert name_of(privacy) != version


def answers(name: str) -> Callable[[ModuleType], Any]:
    """Returns a function: the answers of the rules to every text in their own tests."""
    if name == "language":
        lines = (DATA / "crisis.txt").read_text(encoding="utf-8").splitlines()
        texts = [line[2:] for line in lines] + rule_faults.literals(HERE / "test_language.py")
        conversations = talks(*([text] for text in texts))
        return lambda module: module.marks(conversations).rows()
    texts = EVERY + rule_faults.literals(HERE / "privacy" / "test_privacy.py")
    title = re.compile(rf"\b(?i:{'|'.join(NAMED)})(?: \(\d{{4}}\)|(?![^\W_]))")

    def redacted(module: ModuleType) -> Any:
        titled = [module.redact(text, lambda text: [t.span() for t in title.finditer(text)])[0] for text in texts[::3]]
        return module.redact_all(pl.Series(texts))[0].to_list(), titled, module.redact(texts[0], leave={"handle"})

    return redacted


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_a_fault_that_changes_an_answer_changes_the_version(name) -> None:
    """About 1,100 faults, one at a time, in the code of the rules (patterns and lists are tested above); in the long
    modules every ninth fault, in `make soak` all.

    A fault that does not change the version must not change any answer, on some 750 texts that are not the samples.
    If this test fails, add a text to samples/ on which the rule answers differently. A fault that ends in an error
    gives no answer, so nothing is mined with it.
    """
    module, ask = privacy if name != "language" else language, answers(name)
    version, expected = module.rules(), ask(module)
    noticed, total, missed = 0, 0, []
    for place, source in rule_faults.faults(MODULES[name]):
        if name in LONG and "SAFEREC_SOAK" not in os.environ and zlib.crc32(place.encode()) % 9:
            continue
        total += 1
        with pytest.MonkeyPatch.context() as patch:
            faulty = outcome(partial(made, MODULES[name], source))
            holder = instead(name, faulty, patch) if isinstance(faulty, ModuleType) else None
            if holder is None or outcome(partial(name_of, holder)) != version:
                noticed += 1
            elif (changed := outcome(partial(ask, holder))) != expected and not isinstance(changed, str):
                missed.append(place)
    print(f"{name}: {noticed} of {total} faults change the version")
    assert missed == [] and noticed > total / 2  # the others change no answer on these texts


# ---- workspaces that were mined before


@pytest.mark.slow
def test_what_was_mined_with_other_rules_is_mined_again(cli, workspace, tmp_path, monkeypatch) -> None:
    """Shards are stored under a digest of the names of the rules."""
    rs = write(tmp_path / "RS_2022-08.ndjson", [submission(1, selftext="I'm Ida, from Salem. A calm film, please")])
    rc = write(tmp_path / "RC_2022-08.ndjson", [comment(1, "s1")])

    def shards() -> dict[str, int]:
        assert cli("mine", "reddit", rs, rc, "-C", workspace.root).code == 0
        return {path.name: path.stat().st_mtime_ns for path in sorted((workspace.root / "mining").glob("*.json"))}

    shards_before = shards()
    assert shards_before and shards() == shards_before
    monkeypatch.setattr(language, "rules", lambda: "of a better rule")
    made_again = shards()
    assert len(made_again) == len(shards_before) and made_again.keys().isdisjoint(shards_before)


def test_a_former_name_holds_for_the_same_rules_only(monkeypatch) -> None:
    rules = {"_PATTERN": re.compile("a")}
    monkeypatch.setitem(versions.SAME, versions.named(["b"], rules), "former")
    assert versions.named(["b"], rules) == "former"
    assert "former" not in (versions.named(["c"], rules), versions.named(["b"], {"_PATTERN": re.compile("b")}))

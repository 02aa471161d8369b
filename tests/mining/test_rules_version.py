"""The name of a set of rules changes with what they answer and what they rest on, and with nothing else."""

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
from saferec_builder.storage import tables
from tests import DATA, ROOT
from tests.mining import rule_faults
from tests.mining.rule_faults import made, outcome
from tests.worlds.privacy_lines import EVERY, NAMED
from tests.worlds.reddit_dump import comment, submission, write

HERE = Path(__file__).parent
PARTS = [import_module(f"{privacy.__name__}.{found.name}") for found in iter_modules(privacy.__path__)]
MODULES = {module.__name__.rpartition(".")[2]: module for module in (privacy, *PARTS, language)}
LONG = ("privacy", "numbers", "names", "in_passing", "spoken", "folding")
# of the rule of the commits before versions.py, when a name was a digest of the source; that of the search has changed
FORMER = (privacy.rules(), "ab4db975678e99c6")


def instead(name: str, new: ModuleType, patch: pytest.MonkeyPatch) -> ModuleType:
    """The module that names its rules, with `new` in the place of this one."""
    old = MODULES[name]
    if old in (privacy, language):
        return new
    for at, value in list(vars(privacy).items()):
        if value is old:
            patch.setattr(privacy, at, new)
        elif getattr(value, "__module__", None) == old.__name__:
            patch.setattr(privacy, at, getattr(new, at))
    return privacy


def name_of(module: ModuleType) -> str:
    """Anew, past the cache."""
    return str(module.rules.__wrapped__())


# ---- what changes nothing


def rewritten(module: ModuleType) -> str:
    """Its source as another hand writes it: other lines, comments and docstrings, other names of what is private."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("In other words."))
    private = {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("_")}
    private |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and re.match("_[A-Z]", n.id)}
    source = f"# of another file\n\n{ast.unparse(tree)}\n# the end\n"
    for one in sorted(private - {"_TITLE"}):  # also a word in a text
        source = re.sub(rf"(?<![\w\"']){one}(?![\w\"'])", f"{one}_", source)
    return source


@pytest.mark.parametrize("name", MODULES)
def test_a_comment_a_move_and_another_name_in_the_code_change_no_version(name, monkeypatch) -> None:
    module = MODULES[name]
    before = privacy.rules() if name != "language" else language.rules()
    source = rewritten(module)
    assert source != inspect.getsource(module)
    assert name_of(instead(name, made(module, source, "elsewhere"), monkeypatch)) == before


def test_a_list_of_words_may_be_set_out_anew(tmp_path, monkeypatch) -> None:
    """The order of the lines, comments and blanks of given_names.txt are no part of what it says."""
    lines = (names.Path(names.__file__).parent / "given_names.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "given_names.txt").write_text("# another\n\n" + "\n".join(reversed(lines)), encoding="utf-8")
    new = made(names, inspect.getsource(names))
    new.__dict__["__file__"] = str(tmp_path / "names.py")
    monkeypatch.setattr(privacy, "names", new)
    assert name_of(privacy) == privacy.rules()


def told(search: str, folder: Path = ROOT, **machine: str) -> list[str]:
    """The two versions as another process names them, of the code in this folder."""
    code = f"from saferec_builder.mining import language; import {search} as search"
    code += "; print(search.rules(), language.rules(), language.__file__)"
    words, where = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": str(folder)} | machine
    ran = subprocess.run(words, capture_output=True, text=True, env=where, cwd=folder)
    assert ran.stdout.endswith(f"{folder / 'saferec_builder' / 'mining' / 'language.py'}\n"), ran.stderr
    return ran.stdout.split()[:2]


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
    """With one thing more that no text has."""
    if isinstance(value, re.Pattern):
        return re.compile(value.pattern + r"|\Znever", value.flags)
    if isinstance(value, str):
        return value + "never"
    if isinstance(value, dict):
        return value | {"never": "never"}
    return type(value)([*value, re.compile("never") if isinstance([*value][0], re.Pattern) else "never"])


@cache
def named_of(module: ModuleType) -> tuple[Any, ...]:
    """What the module gives to `named`: its answers, and the variables of its parts, which are looked at anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "named", lambda *given: given)
        found: tuple[Any, ...] = module.rules.__wrapped__()
    return found


@pytest.mark.parametrize(("name", "constant"), CONSTANTS)
def test_every_pattern_text_and_list_is_a_part_of_the_version(name, constant, monkeypatch) -> None:
    """Also where it changes no answer on the samples, as here: on another text it may."""
    module = privacy if name != "language" else language
    assert versions.named(*named_of(module)) == module.rules()
    monkeypatch.setattr(MODULES[name], constant, another(getattr(MODULES[name], constant)))
    assert versions.named(*named_of(module)) != module.rules()


def test_every_given_name_is_a_part_of_the_version(monkeypatch) -> None:
    every, only = names.known()
    monkeypatch.setattr(names, "known", lambda: (every - {"zofia"}, only - {"zofia"}))
    assert name_of(privacy) != privacy.rules()


def talks(texts: list[str]) -> pl.DataFrame:
    turns = [[{"role": "seeker", "text": text, "items": []}] for text in texts]
    kinds = {c: tables.CONVERSATIONS.schema[c] for c in ("conversation", "digest", "turns")}
    return pl.DataFrame({"conversation": "a", "digest": "d", "turns": turns}, schema=kinds)


def answers(name: str) -> Callable[[ModuleType], Any]:
    """What the rules say of every text that their own tests know."""
    if name == "language":
        lines = (DATA / "crisis.txt").read_text(encoding="utf-8").splitlines()
        known = talks([line[2:] for line in lines] + rule_faults.literals(HERE / "test_language.py"))
        return lambda module: module.marks(known).rows()
    texts = EVERY + rule_faults.literals(HERE / "privacy" / "test_privacy.py")
    title = re.compile(rf"\b(?i:{'|'.join(NAMED)})(?: \(\d{{4}}\)|(?![^\W_]))")

    def found(module: ModuleType) -> Any:
        beside = [module.redact(text, lambda said: [t.span() for t in title.finditer(said)])[0] for text in texts[::3]]
        return module.redact_all(pl.Series(texts))[0].to_list(), beside, module.redact(texts[0], leave={"handle"})

    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_a_fault_that_changes_an_answer_changes_the_version(name) -> None:
    """About 1,100 faults, one at a time, in the code of the rules (patterns and lists are parts anyway, see above);
    of the long modules every ninth, but in `make soak` all.

    A fault that leaves the version as it is must leave every answer as it is, on some 750 texts that are not the
    samples. Who sees this test red adds a text to samples/ on which the rule answers otherwise. A fault that ends in
    an error gives no answer, so nothing is mined with it.
    """
    module, ask = privacy if name != "language" else language, answers(name)
    before, said = module.rules(), ask(module)
    seen, total, missed = 0, 0, []
    for where, source in rule_faults.faults(MODULES[name]):
        if name in LONG and "SAFEREC_SOAK" not in os.environ and zlib.crc32(where.encode()) % 9:
            continue
        total += 1
        with pytest.MonkeyPatch.context() as patch:
            new = outcome(partial(made, MODULES[name], source))
            holder = instead(name, new, patch) if isinstance(new, ModuleType) else None
            if holder is None or outcome(partial(name_of, holder)) != before:
                seen += 1
            elif (other := outcome(partial(ask, holder))) != said and not isinstance(other, str):
                missed.append(where)
    print(f"{name}: {seen} of {total} faults change the version")
    assert missed == [] and seen > total / 2  # the others change nothing that these texts show


# ---- workspaces that were mined before


def test_what_was_mined_under_the_former_names_is_not_mined_again(cli, workspace, tmp_path, monkeypatch) -> None:
    """Shards lie under a digest of these names: under others each would be made anew.

    Who changes a rule takes its line out of versions.SAME and its name out of FORMER: what was mined is read again.
    """
    rs = write(tmp_path / "RS_2022-08.ndjson", [submission(1, selftext="I'm Ida, from Salem. A calm film, please")])
    rc = write(tmp_path / "RC_2022-08.ndjson", [comment(1, "s1")])

    def shards() -> dict[str, int]:
        assert cli("mine", "reddit", rs, rc, "-C", workspace.root).code == 0
        return {path.name: path.stat().st_mtime_ns for path in sorted((workspace.root / "mining").glob("*.json"))}

    with monkeypatch.context() as before:
        for module, former in zip((privacy, language), FORMER, strict=True):
            before.setattr(module, "rules", lambda former=former: former)
        then = shards()
    assert then and shards() == then
    assert (privacy.rules(), language.rules()) == FORMER
    monkeypatch.setattr(language, "rules", lambda: "of a better rule")
    assert len(shards()) == 2 * len(then)


def test_a_former_name_holds_for_the_same_rules_only(monkeypatch) -> None:
    rules = {"_PATTERN": re.compile("a")}
    monkeypatch.setitem(versions.SAME, versions.named(["b"], rules), "former")
    assert versions.named(["b"], rules) == "former"
    assert "former" not in (versions.named(["c"], rules), versions.named(["b"], {"_PATTERN": re.compile("b")}))

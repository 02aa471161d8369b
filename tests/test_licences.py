"""Tests that nothing we ship is GPL or AGPL: every installed package that the extras require is checked."""

import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

from tests import ROOT

FORBIDDEN = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.I)
LESSER = re.compile(r"\b(LGPL|GNU Lesser|GNU Library)", re.I)


def closure(name: str, extras: set[str]) -> dict[str, Distribution]:
    """Installed distributions that `name[extras]` requires, by lower-case name."""
    distributions: dict[str, Distribution] = {}
    todo = [(name, frozenset(extras))]
    seen = set(todo)
    while todo:
        name, active = todo.pop()
        try:
            dist = distribution(name)
        except PackageNotFoundError:  # an extra that is not installed here
            continue
        distributions[dist.metadata["Name"].lower()] = dist
        for line in dist.requires or []:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in active | {""}):
                step = (need.name, frozenset(need.extras))
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
    return distributions


def stated(dist: Distribution) -> str:
    """The licence that a package states: expression, classifiers, and the first words of its licence field."""
    meta = dist.metadata
    classifiers = [c for c in meta.get_all("Classifier") or [] if c.startswith("License")]
    return " ".join(filter(None, [meta.get("License-Expression"), *classifiers, (meta.get("License") or "")[:100]]))


def is_forbidden(licence: str) -> bool:
    # "MIT OR GPL-2.0" leaves a choice: a licence is forbidden only if all its parts are
    parts = re.split(r"\bOR\b", LESSER.sub("", licence))
    return all(FORBIDDEN.search(part) for part in parts)


def test_nothing_we_ship_is_gpl() -> None:
    packages = closure("saferec-builder", {"label-studio", "argilla", "hub", "train", "all"})
    assert {"polars", "openai", "datasets", "trl", "label-studio-sdk"} <= set(packages)
    assert not {name: stated(d) for name, d in packages.items() if is_forbidden(stated(d))}
    assert not {"krippendorff", "unidecode"} & set(packages)


def test_no_tool_of_ours_is_gpl_and_none_is_shipped() -> None:
    """The dev group is not shipped, but what builds and tests a release should not be GPL either."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needs = [Requirement(line) for line in groups["dependency-groups"]["dev"]]
    tools = {name: dist for need in needs for name, dist in closure(need.name, set(need.extras)).items()}
    assert {"pip_audit", "hypothesis", "zensical"} <= set(tools)
    assert not {name: stated(d) for name, d in tools.items() if is_forbidden(stated(d))}
    assert not {"pip_audit", "atheris"} & set(closure("saferec-builder", {"all", "croissant"}))


def test_the_walk_would_see_one() -> None:
    assert is_forbidden("GPL-3.0-or-later")
    assert is_forbidden("License :: OSI Approved :: GNU Affero General Public License v3")
    assert not is_forbidden("GNU Lesser General Public License v2 (LGPLv2)")
    assert not is_forbidden("MIT OR GPL-2.0")

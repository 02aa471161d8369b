"""Hypothesis strategies for parsers: any JSON, good values with some parts changed, and TOML of both."""

import copy
import os
from collections.abc import Iterator
from typing import Any

import tomli_w
from hypothesis import HealthCheck, settings, strategies as st

# no deadline, as a busy machine is not an error; `make soak` runs more examples
EXAMPLES = 1_000 if os.environ.get("SAFEREC_SOAK") else int(os.environ.get("SAFEREC_EXAMPLES", "50"))
CALM = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

WIDE = st.characters(codec="utf-8") | st.sampled_from("\x00\r\n\t\x1b\u2028\u200d\ufeff\u202e\u0660²½🙈'\"|;,=@([{<*_`")
TEXT = st.text(WIDE, max_size=12) | st.sampled_from(["", " ", "nan", "1e999", "../../x", "/etc/passwd", "9" * 5_000])
NUMBERS = st.integers() | st.integers(-(10**30), 10**30) | st.floats() | st.sampled_from([0, 1, -1, 2**63, 10**400])
HALF = st.sampled_from(["\ud800", "x\udfff", "\udc80y"])  # half of a character: JSON can write it, no file can store it


def values(leaves: Any = None) -> Any:
    """Any JSON value."""
    leaf = leaves if leaves is not None else st.none() | st.booleans() | NUMBERS | TEXT | HALF
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
    )


@st.composite
def changed(draw: Any, good: Any, leaves: Any = None, most: int = 3) -> Any:
    """The good value with up to `most` of its parts replaced, taken away or doubled."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, most))):
        places = list(_places(value))
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replaced", "replaced", "gone", "twice"]))
        if change == "replaced":
            container[key] = draw(values(leaves))
        elif change == "gone":
            del container[key]
        elif isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


# ---- TOML

TOML = st.booleans() | st.integers() | st.integers(-(10**30), 10**30) | st.floats() | st.text(WIDE, max_size=12)


def toml(data: dict[str, Any]) -> str:
    """The data as TOML text, without values that are None."""
    return tomli_w.dumps(_without_none(data))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(v) for name, v in value.items() if v is not None}
    return [_without_none(v) for v in value if v is not None] if isinstance(value, list | tuple) else value

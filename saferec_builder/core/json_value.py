"""What JSON can hold, as a type: figures of a run, manifests, replies that were checked. And a model's text in it."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


def text_of_parts(content: JsonValue) -> str | None:
    """The text of an answer that a server sends in parts; None where it is no list of parts."""
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return "".join(str(part.get("text") or "") for part in content)  # other parts are thoughts
    return None

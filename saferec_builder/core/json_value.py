"""The type of JSON values (figures of a run, manifests, checked replies), and the text of a model's answer."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


def text_of_parts(content: JsonValue) -> str | None:
    """The text of an answer that a server sent in parts; None where `content` is no list of parts."""
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return "".join(str(part.get("text") or "") for part in content)  # parts without text are the model's reasoning
    return None

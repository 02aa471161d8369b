"""Splits a benchmark's prompt into turns: removes its instruction and restores lost apostrophes.

Pretend you are a ... recommender system. ... Here is the conversation: USER: I can?t see blood
SYSTEM: Try Heat
"""

import re

ROLES = {"USER": "seeker", "SYSTEM": "recommender"}
_TASK = re.compile(
    r"\s*Pretend you are an? [\w -]{0,40}?recommend\w* system\b.*?\bHere is the conversation:", re.I | re.S
)
_SPEAKER = re.compile(r"^[ \t]*(USER|SYSTEM):", re.M)

# a ? inside these words is an apostrophe that an encoding lost; every other ? is a question mark
_NOT = "ai|are|ca|could|dare|did|do|does|had|has|have|is|might|must|need|sha|should|was|were|wo|would"
_ENDS = {
    "t": "|".join(f"{word}n" for word in _NOT.split("|")) + "|can|won|don|shan|ain",
    "m": "I",
    "re": "how|there|these|they|those|we|what|where|who|why|you",
    "ve": "could|I|might|must|should|that|there|they|we|what|who|would|you",
    "ll": "he|how|I|it|she|that|there|they|this|we|what|who|you",
    "d": "he|how|I|it|she|that|there|they|we|what|who|you",
}
_LOST = re.compile(
    "|".join(rf"\b(?:{words})(?=\?{end}\b)" for end, words in _ENDS.items())
    + r"|(?:[^\W\d_]|\ufffd){2,}(?=\?s\b)|\b(?:\d\d)?\d0(?=\?s\b)",  # it?s, Marla?s, the 70?s
    re.I,
)


def turns_of(prompt: str) -> list[tuple[str, str]]:
    """Returns (role, text) of every turn; a prompt that names no speaker is one turn of the seeker."""
    text = _TASK.sub("", prompt, count=1) if _TASK.match(prompt) else prompt
    first, *parts = _SPEAKER.split(text)
    if first.strip() or not parts:  # somebody's own words, even if a later line begins with a speaker
        return [("seeker", apostrophes(text))]
    return [(ROLES[name], apostrophes(words.strip())) for name, words in zip(parts[::2], parts[1::2], strict=True)]


def apostrophes(text: str) -> str:
    """The text with its lost apostrophes; an address keeps its question marks."""
    return re.sub(r"\S+", _restored, text)


def _restored(match: re.Match[str]) -> str:
    word = match[0]
    if "?" not in word or "://" in word or "www." in word.lower():
        return word
    places = {lost.end() for lost in _LOST.finditer(word)}
    return "".join("'" if n in places else char for n, char in enumerate(word))

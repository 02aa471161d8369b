"""Laws that hold for any bytes that strangers send: for each parser a function of bytes that raises where one breaks.

Hypothesis (tests/test_fuzz.py) and atheris (tests/fuzz.py) both check the parsers against these laws.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saferec_builder import sources
from saferec_builder.core import taxonomy as traits, titles
from saferec_builder.llm import Budget, Price, batch as batches, requests_and_replies as servers
from saferec_builder.mining import privacy
from saferec_builder.proposing import model_answers, prompting as propose
from saferec_builder.scoring import answer_parser as answers
from saferec_builder.sources import conversation_rows as conversations, messages
from saferec_builder.storage import tables

Law = Callable[[bytes], None]

# ---- replies of model servers

TAXONOMY = traits.load()
SAID = ("seeker", "A quiet film, please. Blood makes me faint, and needles too 🙈."), ("recommender", "Alien (1979)?")
SUBJECT = propose.Subject("sensitivity", "c", tables.digest(SAID), (*SAID, ("seeker", "No\u2028blood\n at all!")))
SERVER = servers.Server("m", "http://127.0.0.1:9/v1")
MOST = 2**53  # the largest number that every table and JSON reader can hold


def replies(data: bytes) -> None:
    """Reads a server's body, alone and as a line of a batch, then its answer; bad input gives at most one error row.

    Every claim of an answer is a proposal with the seeker's own words, or is counted as rejected; a reply costs what
    it says, and never less than nothing.
    """
    text = data.decode("utf-8", "replace")
    parsed = [servers.read_body("r", "m", text), batches.reply_of(text, SERVER)]
    for reply in (candidate for candidate in parsed if candidate):
        assert (reply.content is None) is (reply.error is not None)
        _pay(reply)
        reply.body.encode()  # what is stored can be encoded
        _reading(reply.content if reply.content is not None else text)


def _pay(reply: servers.Reply) -> None:
    budget = Budget(Price(2.0, 4.0, 1.0), limit=1.0)
    budget.pay(reply, 100)
    bill = budget.billed()
    assert all(0 <= value <= MOST for value in bill.values()), bill
    assert 0 <= bill["tokens_cached"] <= bill["tokens_in"] and budget.spent == bill["usd"]


def _reading(content: str) -> None:
    reading = propose.read_reply(SUBJECT, content, TAXONOMY, ("m", "v"))
    answer = model_answers.read(content, TAXONOMY)
    claims = len(answer.claims) + answer.rejected.total()
    assert claims == len(reading.proposals) + reading.rejected.total()
    plain_count = _plain(content)
    assert answer.error or plain_count is None or plain_count == claims  # counted without our parser
    assert answer.error is None or (not reading.proposals and "\n" not in answer.error)
    for row in reading.proposals:
        assert row["trait"] in TAXONOMY.slugs and (row["spans"] or row["verdict"] == "absent")
        for span in row["spans"]:
            role, words = SUBJECT.turns[span["turn"]]
            assert role == "seeker" and words[span["start"] : span["end"]] == span["quote"]
    if reading.proposals:  # making a table takes longer than all the rest
        frame = tables.check(propose.proposal_rows([reading]), tables.PROPOSALS)
        assert frame.height == len(reading.proposals)


def _plain(content: str) -> int | None:
    """The number of claims in plain JSON; None for anything else."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    claims = data.get("claims") if isinstance(data, dict) else None
    return len(claims) if isinstance(claims, list) else None


# ---- lines that are mined

_FILE = Path(tempfile.gettempdir() if not os.access("/dev/shm", os.W_OK) else "/dev/shm") / f"lines-{os.getpid()}.jsonl"


def lines(data: bytes) -> None:
    """Reads a file of conversations and redacts its texts: a line becomes a row that its table takes, or a drop."""
    _FILE.write_bytes(data)
    try:
        rows, drops = sources.jsonl(_FILE, "mine", "messages", _conversation)
    finally:
        _FILE.unlink()
    nonempty = [line for line in data.split(b"\n") if line.removeprefix(b"\xef\xbb\xbf").strip()]
    assert len(rows) + len(drops) == len(nonempty)
    assert all(drop["reason"] and len(drop["detail"]) <= 200 for drop in drops)
    for row in rows:
        for turn in row["turns"]:
            assert turn["text"].strip() and turn["role"] in ("seeker", "recommender")
            redacted(turn["text"])
    if rows:  # making a table takes longer than all the rest
        assert conversations.frame(rows).height == len(rows)


def _conversation(place: str, raw: dict[str, Any]) -> sources.Rows:
    return [messages.conversation("messages", place, raw)[0]]


def redacted(text: str) -> None:
    """Placeholders replace pieces that do not overlap, and a redacted text stays as it is when redacted again."""
    pieces = privacy.find(text)
    ends = [0, *(end for _, end, _ in pieces)]
    assert all(last <= start < end <= len(text) for last, (start, end, _) in zip(ends, pieces, strict=False))
    clean, counts = privacy.redact(text)
    assert counts >= Counter(kind for *_, kind in pieces)  # a placeholder may uncover a piece that was hidden before
    if "[" not in text:  # otherwise a piece may include a placeholder
        placeholders = Counter({kind: clean.count(f"[{kind}]") for kind in privacy.KINDS})
        assert placeholders == counts, (clean, counts)
    again, recount = privacy.redact(clean)
    assert not recount and again == clean, (clean, again)


# ---- answers of recommenders

CATALOGUE = [
    *(("alien", "Alien", 1979), ("71", "'71", 2014), ("500", "(500) Days of Summer", 2009), ("2049", "2049", 2017)),
    *(("300", "300: Rise of an Empire", 2014), ("mash", "M*A*S*H", 1970), ("it", "It", 2017), ("chess", "Chess", None)),
    *(("good", "The Good, the Bad and the Ugly", 1966), ("s77", "Suspiria", 1977), ("s18", "Suspiria", 2018)),
]
FIND = answers.finder(titles.index((i, t, y, "film" if y else "game", ()) for i, t, y in CATALOGUE))
IDS = {item for item, _, _ in CATALOGUE}
NAMES = {item: f"{title} ({year})" if year else title for item, title, year in CATALOGUE}


def answer(data: bytes) -> None:
    """Any text gives known items only, or a problem; its known items, listed plainly, are read the same again."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    read = answers.parse(text, FIND)
    assert read == answers.parse(text, FIND)
    assert (read.problem is None) is bool(read.entries) and len(read.entries) <= answers.MOST
    assert read.problem in (None, "empty", "refusal", "no titles", "key twice")
    items = [entry.item for entry in read.entries if entry.item]
    assert set(items) <= IDS and len(read.ranked) == len(read.entries)
    assert all(entry.year is None or 1800 <= entry.year < 2100 for entry in read.entries)
    listed = "\n".join(f"{n}. {NAMES[item]}" for n, item in enumerate(items, 1))
    assert [entry.item for entry in answers.parse(listed, FIND).entries] == items, listed


# ---- inputs from which a search starts

CLAIM: dict[str, Any] = {
    **{"trait": "gore", "form": "explicit", "verdict": "present", "confidence": 90},
    "evidence": [{"turn": 0, "quote": "Blood makes me faint"}, {"turn": 2, "quote": "No blood"}],
}
CONTENT = json.dumps({"claims": [CLAIM, {**CLAIM, "trait": "needles", "verdict": "unsure", "form": "none"}]})
BODY: dict[str, Any] = {
    "choices": [{"finish_reason": "stop", "message": {"content": CONTENT, "refusal": None}}],
    "usage": {"prompt_tokens": 70, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 7}},
}
TALK: dict[str, Any] = {
    **{
        "id": "a1",
        "time": "2024-05-01T12:00:00Z",
        "user": 7,
        "domain": "film",
        "accepted": ["Alien (1979)"],
        "seen": [],
    },
    "messages": [
        {"role": "user", "content": "I'm Ann Lee, mail a.lee@example.org or +1 415 555 0177. Like Alien (1979)"},
        {"role": "assistant", "content": [{"type": "text", "text": "See u/someone"}], "items": ["imdb:tt0078748"]},
        {"role": "system", "content": "be kind"},
    ],
}
LISTS = [
    "1. **Alien** (1979) - a reason\n2. '71 (2014)\n",
    "| # | Title | Year |\n|---|---|---|\n| 1 | Alien | 1979 |",
    '```json\n[{"title": "It", "year": 2017}, "Alien (1979)"]\n```',
    "- “Suspiria” [1977], M*A*S*H (1970), and 2049 (2017)",
    "<think>no</think>Try Alien, Chess and 300: Rise of an Empire because they are good.",
    "I am sorry, I can't.",
]
WORDS = (
    *'"claims" "trait" "evidence" "turn" "quote" "form" "verdict" "confidence" "choices" "message" "content"'.split(),
    *'"usage" "prompt_tokens" "custom_id" "response" "status_code" "body" "error" "messages" "role" "user"'.split(),
    *'"assistant" "text" "type" "items" "accepted" "seen" "time" "domain" "title" "year" null true [] {} 1e999'.split(),
    *"-1 99999999999999999999 NaN \\ud800 \\u0000 gore needles present absent unsure explicit stop length".split(),
    *"imdb:tt0078748 Alien (1979) [2017] ** ``` | <think> https:// @ u/ #1234 +1 4155550177 192.168.0.1 :: 12".split(),
    *"is name Ann Street Box example.org (at) 4111111111111111".split(),
    *("\u2028", "\ufeff", "\U0001f648", "e\u0301"),
)
BATCH = {"custom_id": "r", "response": {"status_code": 200, "body": BODY}, "error": None}
LAWS: dict[str, tuple[Law, list[bytes]]] = {
    "replies": (replies, [json.dumps(BODY).encode(), CONTENT.encode(), json.dumps(BATCH).encode(), b"<html>"]),
    "lines": (lines, [json.dumps(TALK).encode() + b"\n\n", b'{"messages": []}\n[]\n"\xff"\n{"messages": 5}']),
    "answers": (answer, [text.encode() for text in LISTS]),
}

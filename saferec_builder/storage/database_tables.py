"""Small and precious tables, in the database: who reviews what, what they answered, labels, replies that were paid."""

import polars as pl

from saferec_builder.storage.schema import SPAN, Table

WHY = "gold | proposed | held_back | orders | band | census | audit | control | disagreement | recheck"

ASKED = Table(
    "asked",
    "db",
    ("taxonomy", "trait"),
    {
        "taxonomy": (pl.String, "as in readings: digest of the taxonomy file, or of the part of it that was asked"),
        "trait": (pl.String, "slug"),
        "wording": (pl.String, "hash of slug, definition and hint; a trait with a new wording is asked anew"),
    },
    "Which traits a reading was about, in which words.",
)

ASSIGNMENTS = Table(
    "assignments",
    "db",
    ("kind", "subject", "reviewer", "role"),
    {
        "kind": (pl.String, "sensitivity | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "reviewer": (pl.String, "name inside the workspace; never leaves it"),
        "role": (pl.String, "reviewer | adjudicator"),
        "digest": (pl.String, "of the text shown"),
        "why": (pl.String, WHY),
        "batch": (pl.String, "name of the push that first carried it"),
    },
    "Which task goes to whom, and why.",
)

DESIGN = Table(
    "design",
    "db",
    ("kind", "subject"),
    {
        "kind": (pl.String, "sensitivity | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "draw": (pl.String, "place in the draw of audits: hash of the id, keyed with the workspace's secret"),
        "stratum": (pl.String, "claimed: all are read | zone: an audit speaks for them | sure: proposals for `auto`"),
        "batch": (pl.String, "name of the push that drew it"),
    },
    "The sampling design: who is drawn, and how, written before a push sends anything. A stratum never changes.",
)

TOMBSTONES = Table(
    "tombstones",
    "db",
    ("kind", "subject"),
    {
        "kind": (pl.String, "sensitivity"),
        "subject": (pl.String, "a random name; nothing leads back to the conversation"),
        "draw": (pl.String, "a place in the draw between the same two neighbours; otherwise random"),
        "stratum": (pl.String, "as in design: zone | sure"),
        "why": (pl.String, "as in assignments: why it was given to its first reader; null: to nobody"),
        "verdicts": (
            pl.List(pl.Struct({"trait": pl.String, "verdict": pl.String})),
            "people's last verdicts; `*` without one where they had read it and come to none",
        ),
    },
    "What the sampling design keeps of conversations that were erased, so that the bounds still hold: no text, no id.",
)

FORGOTTEN = Table(
    "forgotten",
    "db",
    ("source", "who"),
    {
        "source": (pl.String, "in which they are left out; empty: in all"),
        "who": (pl.String, "keyed digest of an id in the source, or keyed pseudonym of an author"),
    },
    "People who were erased: mining leaves them out for good. Never released.",
)

GOLD = Table(
    "gold",
    "db",
    ("kind", "subject"),
    {
        "kind": (pl.String, "sensitivity"),
        "subject": (pl.String, "conversation id"),
        "traits": (pl.List(pl.String), "the traits that are present; every other trait is absent"),
    },
    "Conversations whose verdicts are known beforehand: every reviewer reads them, and these measure their accuracy.",
)

DECOYS = Table(
    "decoys",
    "db",
    ("kind", "subject", "reviewer"),
    {
        "kind": (pl.String, "sensitivity"),
        "subject": (pl.String, "conversation id"),
        "reviewer": (pl.String, "the only one who sees it"),
        "trait": (pl.String, "what was suggested there though nothing speaks for it"),
        "spans": (pl.List(SPAN), "words that it points at"),
    },
    "Wrong suggestions, planted to see who accepts what they did not read.",
)

SENT = Table(
    "sent",
    "db",
    ("tool", "place", "task", "remote", "state"),
    {
        "tool": (pl.String, "label_studio | argilla | page"),
        "place": (
            pl.String,
            "mark of the project on the server, a new one where it was wiped; of the page the reviewer",
        ),
        "task": (pl.String, "key of the task: hash of what is shown to whom"),
        "remote": (pl.String, "its id on the server, empty while it is being sent"),
        "state": (pl.String, "sending | there | gone"),
    },
    "What a review server holds, so that nothing is sent twice; the last row of a task counts.",
)

KEYED = Table(
    "keyed",
    "db",
    ("task",),
    {
        "task": (pl.String, "key of the task, which nobody makes without the workspace's secret"),
        "asked": (pl.List(pl.String), "traits that were asked one by one"),
        "shown": (pl.List(pl.String), "trait turn start end of every span that was marked beforehand; no words"),
        "guideline": (pl.String, "digest of the guidelines that were shown"),
        "taxonomy": (pl.String, "digest of the taxonomy that was shown"),
    },
    "What each task asked as it was handed out: an answer is read by this, whatever comes back beside it.",
)

TASK_PAGES = Table(
    "task_pages",
    "db",
    ("task", "page"),
    {
        "task": (pl.String, "key of the task; of a project's own page its mark: whose it is, keyed, and for what"),
        "page": (pl.String, "digest of what a review server was sent to show; `edited` once that was"),
    },
    "What tasks and projects on a review server showed: an answer to what was changed there goes back to its author.",
)

REJECTED = Table(
    "rejected",
    "db",
    ("task", "reviewer", "place", "reason", "detail"),
    {
        "task": (pl.String, "hash of what was shown to whom, as in keyed but without its key"),
        "reviewer": (pl.String, "whose answer it is"),
        "place": (pl.String, "where it stands: a file and its row, or a link"),
        "reason": (pl.String, "short and countable"),
        "detail": (pl.String, "found and expected"),
    },
    "Answers that could not be taken: their authors are told at the next push, until an answer to the task is taken.",
)

HANDED_BACK = "handed back"  # the note of a `*` without a verdict: its reader would rather not see the text

REVIEWS = Table(
    "reviews",
    "db",
    ("review",),
    {
        "review": (pl.String, "hash of reviewer, unit, verdict, and push or pull"),
        "kind": (pl.String, "sensitivity | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "trait": (pl.String, "slug, or `*`: every trait that this reviewer did not answer one by one"),
        "digest": (pl.String, "of the text that was shown"),
        "reviewer": (pl.String, "name inside the workspace"),
        "role": (pl.String, "reviewer | adjudicator | other: the task is somebody else's, so it does not count"),
        "verdict": (pl.String, "present | absent | unsure; null: taken back, `note` says why"),
        "form": (pl.String, "explicit | implicit, null unless present"),
        "spans": (pl.List(SPAN), "evidence that the reviewer kept or marked"),
        "note": (pl.String, "for the team; never released"),
        "seconds": (pl.Float64, "spent on the task, or null"),
        "tool": (pl.String, "files | label_studio | argilla | page | simulated"),
        "guideline": (pl.String, "hash of the guidelines that held when the task was shown"),
        "taxonomy": (pl.String, "digest of the taxonomy"),
        "simulated": (pl.Boolean, "true: by a program, not a person; publish --hub refuses it"),
        "time": (pl.Datetime("us", "UTC"), "when it was given; null where the tool does not say"),
    },
    "One person's verdict on one unit; of one reviewer's rows on a unit the last one counts.",
)

LABELS = Table(
    "labels",
    "db",
    ("label",),
    {
        "label": (pl.String, "hash(unit, reviews it rests on, verdict)"),
        "kind": (pl.String, "sensitivity | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "trait": (pl.String, "slug"),
        "digest": (pl.String, "of the text that was judged"),
        "verdict": (pl.String, "present | absent | unsure; null while unresolved"),
        "form": (pl.String, "explicit | implicit, null unless present"),
        "spans": (pl.List(SPAN), "evidence of the reviews that agree with the verdict"),
        "method": (pl.String, "agreed | adjudicated | auto | unresolved"),
        "reviews": (pl.List(pl.String), "ids of the reviews that it rests on"),
        "simulated": (pl.Boolean, "any of them simulated"),
    },
    "The final verdict on a unit; the last row of a unit counts.",
)

REPLIES = Table(
    "replies",
    "db",
    ("request",),
    {
        "request": (pl.String, "hash of model, messages, schema, sampling and server"),
        "model": (pl.String, "as asked"),
        "body": (pl.String, "the raw reply, as it came"),
        "tokens_in": (pl.Int64, "as billed, or null"),
        "tokens_out": (pl.Int64, "as billed, or null"),
    },
    "Replies already paid for, also those of no use; a second and third answer to one request end in -2 and -3.",
)

REQUESTS = Table(
    "requests",
    "db",
    ("request", "subject"),
    {
        "request": (pl.String, "as in replies"),
        "kind": (pl.String, "sensitivity | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "digest": (pl.String, "of the text that was asked about"),
    },
    "Which text a paid reply is about, so that the reply goes when its text has to.",
)

SPEND = Table(
    "spend",
    "db",
    ("run", "part"),
    {
        "run": (pl.String, "start of the command and its process"),
        "part": (pl.Int64, "1, 2, ...: written every second"),
        "model": (pl.String, "as asked"),
        "way": (pl.String, "openai | batch"),
        "requests": (pl.Int64, "answered, usable or not"),
        "tokens_in": (pl.Int64, "as billed"),
        "tokens_cached": (pl.Int64, "the part of tokens_in that a prefix cache made cheaper"),
        "tokens_out": (pl.Int64, "as billed"),
        "bytes_out": (pl.Int64, "length of these requests: bytes per token of this model"),
        "usd": (pl.Float64, "at the prices in saferec.toml; 0 where it names none"),
    },
    "What models were paid, failed answers included.",
)

BATCHES = Table(
    "batches",
    "db",
    ("batch", "state", "remote"),
    {
        "batch": (pl.String, "hash of the requests in it"),
        "server": (pl.String, "base URL"),
        "model": (pl.String, "as asked"),
        "state": (pl.String, "uploaded | submitted | done"),
        "remote": (pl.String, "id of the file, then of the batch, on the server"),
        "requests": (pl.Int64, "in it"),
    },
    "Batches at a server, so that none is submitted or fetched twice; the last row of a batch counts.",
)

WAYS = Table(
    "ways",
    "db",
    ("server", "model", "time"),
    {
        "server": (pl.String, "base URL"),
        "model": (pl.String, "as asked"),
        "time": (pl.Datetime("us", "UTC"), "when it was found"),
        "way": (pl.String, "json_schema | tool | json_object | text: the strictest that the server answers"),
        "refuses": (pl.List(pl.String), "temperature | max_completion_tokens | system: what it is asked without"),
    },
    "How a model is asked for an answer of a schema, where it is not the usual way; the last row of a model counts.",
)

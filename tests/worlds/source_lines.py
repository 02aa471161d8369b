"""Lines of conversations as their sources write them."""

import json


def jsonl(path, *rows):
    """Writes rows, which may be text already; returns the path."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def said(role, content, **more):
    return {"role": role, "content": content, **more}


OFFICIAL = {
    "prompt": [{"role": "system", "content": "You recommend."}, {"role": "user", "content": "A calm film, no needles"}],
    "completion": [{"role": "assistant", "content": "1. Heat (1995)"}],
    "seen_titles": ["Up (2009)"],
    "groundtruth_with_release_year": [["Heat", 1995], ["Ronin", None]],
    "constraints": {"Needle phobia": True, "Gore": False},
}

REDIAL = {
    **{"conversationId": 1, "initiatorWorkerId": 0, "respondentWorkerId": 1},
    "messages": [{"text": "hi @1", "senderWorkerId": 0}],
    **{"movieMentions": {"1": "Heat (1995)"}, "initiatorQuestions": {"1": {"seen": 1}}},
}


def chat(name, *texts, **more):
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return json.dumps({"id": name, "user": "somebody@example.org", "messages": messages, **more})


TASK = (
    "Pretend you are a movie recommender system.\nYou see a talk between a user and you (a recommender system). Reply"
    " with 20 titles.\nHere is the conversation: "
)


def texts(rows):
    return [[turn["text"] for turn in turns] for turns in rows["turns"]]

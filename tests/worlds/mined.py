"""Conversations as their sources give them, in one line each."""

from saferec_builder.sources import conversation_rows as conversations
from saferec_builder.storage import tables

EMPTY = tables.CONVERSATIONS.empty


def talk(name, *texts, seeker="ann", place="f:1", roles=("seeker", "recommender")):
    """A conversation in which seeker and recommender take turns."""
    turns = [{"role": roles[n % 2], "text": text, "items": []} for n, text in enumerate(texts)]
    return conversations.row("t", name, place, turns, seeker=seeker, recommended=[], accepted=[], seen=[])

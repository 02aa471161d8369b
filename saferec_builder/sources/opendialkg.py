"""Reads OpenDialKG: dialogues about films and books, as rows of messages; it has no people and no times.

The rows have the format of `messages`; the source has its own name and licence.
"""

from functools import partial

from saferec_builder.sources import messages

SOURCE = "opendialkg"
read = partial(messages.read, source=SOURCE)

"""The duties of the queue to reviewers, and what it may store about them: opt-outs, caps, gold, decoys, set-asides."""


# ---- what is missed at most

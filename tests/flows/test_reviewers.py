"""What the queue owes its people, and what it may know of them: opt-outs, caps, gold, decoys, work set aside."""


# ---- what is missed at most

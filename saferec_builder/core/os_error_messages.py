"""Explains operating-system errors (a full disk, a barred folder) in one line that says what to do next."""

import errno
import os
import re
import shutil

FULL = "make room and run the same command again: it does what is missing"
BARRED = "let yourself write there (or read it), or give another folder"
PLAIN = "put a plain file there"
MEMORY = "not enough memory: give smaller files, or use a machine that has more"
WHAT_NEXT = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or use another disk, and run it again",
    errno.EROFS: BARRED,
    errno.EACCES: BARRED,
    errno.EPERM: BARRED,
    errno.EISDIR: PLAIN,
    errno.ELOOP: PLAIN,
    errno.ESPIPE: PLAIN,
    errno.EIO: "the disk fails: copy the workspace to another one",
    errno.EMFILE: "raise the limit on open files (ulimit -n) and run it again",
    errno.ENFILE: "close programs and run it again",
}
# a number that stands in words only: of libraries in other languages, and of many faults told as one
WORDS = re.compile(r"(?:os error |\[[Ee]rrno )(\d+)")
# what Python makes of a disk without room for four bytes, and polars of one without room for the end of a shard
NAMELESS = ("No usable temporary directory", "Invalid thrift: transport error")


def line(fault: Exception) -> str | None:
    """What the machine refused and what to do next; None where it is no refusal but a bug."""
    if isinstance(fault, MemoryError):
        return MEMORY
    known = WORDS.search(str(fault))
    number = getattr(fault, "errno", None) or (int(known[1]) if known else None)
    if any(words in str(fault) for words in NAMELESS):
        number = errno.ENOSPC
    if number not in WHAT_NEXT:
        return None
    what = str(fault)
    if isinstance(fault, shutil.Error):  # one for each of many files
        what = os.strerror(number)
    elif isinstance(fault, OSError) and fault.filename and fault.strerror:
        what = " -> ".join(str(name) for name in (fault.filename, fault.filename2) if name) + f": {fault.strerror}"
    return f"{what}: {WHAT_NEXT[number]}"

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
# an error number in the message only: from libraries in other languages, or of several errors reported as one
WORDS = re.compile(r"(?:os error |\[[Ee]rrno )(\d+)")
# messages of a full disk without its number: Python's (no room for four bytes), polars's (none for a shard's end)
NAMELESS = ("No usable temporary directory", "Invalid thrift: transport error")


def line(fault: Exception) -> str | None:
    """One line with what the system refused and what to do next; None for an exception that is a bug."""
    if isinstance(fault, MemoryError):
        return MEMORY
    match = WORDS.search(str(fault))
    number = getattr(fault, "errno", None) or (int(match[1]) if match else None)
    if any(words in str(fault) for words in NAMELESS):
        number = errno.ENOSPC
    if number not in WHAT_NEXT:
        return None
    problem = str(fault)
    if isinstance(fault, shutil.Error):  # it lists an error per file
        problem = os.strerror(number)
    elif isinstance(fault, OSError) and fault.filename and fault.strerror:
        problem = " -> ".join(str(name) for name in (fault.filename, fault.filename2) if name) + f": {fault.strerror}"
    return f"{problem}: {WHAT_NEXT[number]}"

"""The entry point of `saferec-build`: Ctrl-C gives no traceback, even while the commands are being imported."""

import gc
import sys


def main() -> None:
    gc.set_threshold(50_000)  # tables as Python objects hold no cycles: looking for them took a fifth of a command
    try:
        from saferec_builder.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # interrupts.INTERRUPTED, which may not be imported yet

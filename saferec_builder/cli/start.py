"""The entry point of `saferec-build`: Ctrl-C gives no traceback, even while the commands are being imported."""

import sys


def main() -> None:
    try:
        from saferec_builder.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # interrupts.INTERRUPTED, which may not be imported yet

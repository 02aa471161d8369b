"""Where `saferec-build` begins: Ctrl-C is quiet from the first moment, while the commands are loaded and made too."""

import sys


def main() -> None:
    try:
        from saferec_builder.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # as interrupts.INTERRUPTED, which may not be loaded yet

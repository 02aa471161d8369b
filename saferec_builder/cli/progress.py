"""How steps that take a while show where they stand, on stderr: a bar, or where it is no terminal a line at times."""

import sys
from functools import partial

import typer
from tqdm import tqdm

from saferec_builder.core.progress import Bar, Progress, lines


def bar(name: str, unit: str) -> Progress:
    def drawn(total: int) -> Bar:
        made: Bar = tqdm(total=total, desc=name, unit=unit)
        return made

    return drawn if sys.stderr.isatty() else lines(partial(typer.echo, err=True), name, unit)

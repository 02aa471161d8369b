"""Progress of long steps on stderr: a bar, or a line at times if stderr is no terminal."""

import sys
from functools import partial

import typer
from tqdm import tqdm

from saferec_builder.core.progress import Bar, Progress, lines


def bar(name: str, unit: str, at_once: int = 0) -> Progress:
    def draw(total: int) -> Bar:
        tqdm_bar: Bar = tqdm(total=total, desc=name, unit=unit)
        return tqdm_bar

    return draw if sys.stderr.isatty() else lines(partial(typer.echo, err=True), name, unit, at_once)

"""Bars on stderr for the steps that take a while; none where stderr is no terminal."""

from tqdm import tqdm

from saferec_builder.core.progress import Bar, Progress


def bar(name: str, unit: str) -> Progress:
    def made(total: int) -> Bar:
        drawn: Bar = tqdm(total=total, desc=name, unit=unit, disable=None)
        return drawn

    return made

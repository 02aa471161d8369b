from saferec_builder.errors import UsageError


def adjudicate() -> None:
    raise UsageError("adjudicate is not built yet")

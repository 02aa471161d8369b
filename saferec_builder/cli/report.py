from saferec_builder.errors import UsageError


def report() -> None:
    raise UsageError("report is not built yet")

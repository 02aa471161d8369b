from saferec_builder.errors import UsageError


def publish() -> None:
    raise UsageError("not built yet")


def verify() -> None:
    raise UsageError("not built yet")

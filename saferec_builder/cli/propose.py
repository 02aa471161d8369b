from saferec_builder.errors import UsageError


def propose() -> None:
    raise UsageError("propose is not built yet")

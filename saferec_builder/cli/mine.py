from saferec_builder.errors import UsageError


def mine() -> None:
    raise UsageError("mine is not built yet")

from saferec_builder.errors import UsageError


def demo() -> None:
    raise UsageError("demo is not built yet")

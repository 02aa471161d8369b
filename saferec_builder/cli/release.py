from saferec_builder.errors import UsageError


def release() -> None:
    raise UsageError("release is not built yet")

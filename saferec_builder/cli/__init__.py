"""saferec-build: one file per verb group; heavy packages load inside the command that needs them."""

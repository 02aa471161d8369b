"""The commands of saferec-build, a file per group; heavy packages are imported by the command that needs them."""

"""The demo's taxonomy and sizes."""

from saferec_builder.core import taxonomy as traits

TAXONOMY = traits.load()

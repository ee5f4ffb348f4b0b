"""The group ``pykraft pipeline`` with all its commands."""

from __future__ import annotations

from pykraft.cli.pipeline.command import pipeline
from pykraft.cli.pipeline.metadata import metadata

pipeline.add_command(metadata)

"""The group ``pykraft pipeline`` with all its commands."""

from __future__ import annotations

from pykraft.cli.pipeline.command import pipeline
from pykraft.cli.pipeline.metadata import metadata
from pykraft.cli.pipeline.report import report, upkeep

pipeline.add_command(metadata)
pipeline.add_command(report)
pipeline.add_command(upkeep)

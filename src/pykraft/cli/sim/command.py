"""`pykraft sim`: run simulated clusters, each from one seed, or replay one.

Lists the commands; each is a file of its own.
"""

from __future__ import annotations

import click

from pykraft.cli.parsing.group import Group
from pykraft.cli.sim.run import replay, run


@click.group(cls=Group)
def sim() -> None:
    """Run the simulator: the production node on a virtual disk, network and clock."""


sim.add_command(run)
sim.add_command(replay)

"""`pykraft` in a clone: the commands of the package, and those of the laboratory.

Invariant: the package knows nothing of these.
"""

from collections.abc import Mapping

from pykraft.cli import main as package
from pykraft.cli.main import COMMANDS, LazyGroup

LAB_COMMANDS: Mapping[str, tuple[str, str]] = {
    "bench": ("lab.cli.bench", "Run benchmarks of pykraft and Kafka."),
    "chaos": ("lab.cli.chaos", "Inject faults into a quorum under load, then check every record."),
    "demo": ("lab.cli.demo", "Run a quorum under load, kill its leader, and check every record with Spark."),
    "sim": ("lab.cli.sim", "Run the simulator."),
}


class _LabGroup(LazyGroup):
    modules: Mapping[str, tuple[str, str]] = {**COMMANDS, **LAB_COMMANDS}


pykraft = _LabGroup(
    name=package.pykraft.name,
    params=package.pykraft.params,
    help=package.pykraft.help,
    callback=package.pykraft.callback,
    context_settings=package.pykraft.context_settings,
)


def main() -> None:
    """Run the command line."""
    package.main(pykraft)

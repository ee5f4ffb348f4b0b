"""`pykraft`: the command line. Each command is a file of its own, imported when it is called.

An error that pykraft raises on purpose becomes one line and an exit code (`pykraft.cli.errors`); any other exception
is a bug and shows its traceback.
"""

import importlib
import os
from collections.abc import Mapping
from typing import Final

import click
from click.shell_completion import CompletionItem

from pykraft import __version__
from pykraft.cli.errors import run_with_exit_codes
from pykraft.cli.parsing.group import Group

VARIABLE: Final = "_PYKRAFT_COMPLETE"
"""The scripts of `pykraft completion` set this variable to ask for candidates; `click.Command.main` answers."""
COMMANDS: Mapping[str, tuple[str, str]] = {
    "append": ("pykraft.cli.append.command", "Append lines to a live quorum, a record each."),
    "audit": ("pykraft.cli.audit", "Check the directories of all replicas against each other."),
    "certs": ("pykraft.cli.certs", "Write certificates for a quorum with TLS."),
    "completion": ("pykraft.cli.completion", "Print a completion script for a shell."),
    "dump": ("pykraft.cli.dump", "Print log, index, checkpoint and quorum-state files."),
    "kv": ("pykraft.cli.kv.command", "Run the key-value store as a service: serve, get, put, del, watch, lock."),
    "learn": ("pykraft.cli.learn", "Show how Raft works, in short runs with a page each."),
    "local": ("pykraft.cli.local", "Run a quorum on this machine: up, status, down."),
    "machine": ("pykraft.cli.machine", "Skip a command that ends the nodes of a quorum."),
    "metadata": ("pykraft.cli.metadata", "Show what a Kafka cluster's metadata log holds, at any moment."),
    "new": ("pykraft.cli.new", "Write a project to begin with."),
    "pipeline": ("pykraft.cli.pipeline.command", "Write a quorum's log into tables with Spark."),
    "quorum": ("pykraft.cli.quorum.command", "Describe and change a live quorum, like kafka-metadata-quorum."),
    "server": ("pykraft.cli.server", "Run a node."),
    "sim": ("pykraft.cli.sim.run", "Run the simulator."),
    "storage": ("pykraft.cli.storage", "Format a node's log directories, or show them."),
    "tail": ("pykraft.cli.tail", "Print the records of a live quorum."),
    "users": ("pykraft.cli.users", "Add, remove and list the users of SCRAM."),
    "verify": ("pykraft.cli.verify", "Check a data directory: CRC, offsets, epochs, indexes."),
    "version": ("pykraft.cli.version", "Print the version."),
}
"""Command: its module, and its short help, so that the list of commands imports none of them."""


class LazyGroup(Group):
    """A group that imports a command only when it is needed."""

    modules: Mapping[str, tuple[str, str]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self.modules:
            return None
        command = getattr(importlib.import_module(self.modules[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """See `click.Group`; completing names imports no command."""
        names = [CompletionItem(name, help=text) for name, (_, text) in sorted(self.modules.items())]
        found = [item for item in names if item.value.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`; the help of the group imports no command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(self.modules.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(version)s")
def pykraft() -> None:
    """Apache Kafka's Raft (KRaft) in Python, with Kafka's own bytes on the wire and on disk."""


def main(group: click.Group = pykraft) -> None:
    """Entry point of the `pykraft` script."""
    if VARIABLE in os.environ:  # a shell asks for completions
        from pykraft.cli.parsing.shells import register_shells

        register_shells()
    run_with_exit_codes(group)

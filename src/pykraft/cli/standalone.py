"""Runs `pykraft server` with the names and exit statuses of Kafka's scripts (``bin/test-kraft-server-start.sh``).

It differs from `pykraft server` as Kafka's scripts do: a wrong command line prints the usage, every failure exits with
1, and the node writes a load unless it is told not to. Signals are handled before the command loads, so nothing else is
imported at the top (see `pykraft.__main__`).

Source: the README of Kafka's raft module; Kafka's ``TestRaftServer`` and ``CommandLineUtils``.
"""

import sys
from collections.abc import Sequence

from pykraft.process.signals import end_on_early_signals

EXIT_FAILED = 1


def run(name: str, words: Sequence[str]) -> int:
    """Run the server as a script of this name; returns its exit status. Errors: CommandInterrupted."""
    from pykraft.cli.interrupt import interruptible

    return interruptible(lambda: _run(name, words), name)


def _run(name: str, words: Sequence[str]) -> int:
    import logging

    import click

    from pykraft.cli.parsing.group import usage_line
    from pykraft.cli.server import KAFKAS_DEFAULTS, server
    from pykraft.errors import PykraftError

    try:
        result = server.main(list(words), prog_name=name, standalone_mode=False, default_map=KAFKAS_DEFAULTS)
    except click.exceptions.Abort:
        return EXIT_FAILED
    except click.ClickException as error:
        click.echo(server.get_help(click.Context(server, info_name=name)), err=True)
        click.echo(f"\n{name}: {usage_line(error)}", err=True)
        return EXIT_FAILED
    except (PykraftError, OSError) as error:
        click.echo(f"{name}: {error}", err=True)
        return EXIT_FAILED
    finally:
        logging.shutdown()
    return result if isinstance(result, int) else 0


def main() -> None:
    """Run the script that the first word names, and end the process."""
    end_on_early_signals(sys.argv[1])
    from pykraft.cli.interrupt import last_act

    with last_act():
        sys.exit(run(sys.argv[1], sys.argv[2:]))


if __name__ == "__main__":
    main()

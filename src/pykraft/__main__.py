"""The process of the command line: `python -m pykraft`, and the script `pykraft`.

``bin/pykraft`` blocks the signals that end a command until `main` runs, because Python would show a traceback when
Ctrl-C comes while it starts.
"""

from pykraft.process.signals import end_on_early_signals


def main() -> None:
    """Run the command line, and end the process."""
    end_on_early_signals("pykraft")
    from pykraft.cli.interrupt import CommandInterrupted
    from pykraft.cli.main import main as run

    try:
        run()
    except CommandInterrupted as interrupted:
        interrupted.end_process()


if __name__ == "__main__":
    main()

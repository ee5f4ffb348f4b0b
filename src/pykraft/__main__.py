"""The process of the command line: `python -m pykraft`, and the script `pykraft`; in a clone, `python -m lab`.

``bin/pykraft`` blocks the signals that end a command until `main` runs, because Python would show a traceback when
Ctrl-C comes while it starts.
"""

import importlib

from pykraft.process.signals import end_on_early_signals


def main(module: str = "pykraft.cli.main") -> None:
    """Run the command line of this module, and end the process."""
    end_on_early_signals("pykraft")
    from pykraft.cli.interrupt import last_act

    with last_act():
        importlib.import_module(module).main()


if __name__ == "__main__":
    main()

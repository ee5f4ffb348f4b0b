"""The process of the command line: `python -m pykraft`, and the script `pykraft`.

Until the command line handles signals itself (`pykraft.cli.interrupt`), they end the process silently. ``bin/pykraft``
blocks SIGINT until this module runs, because Python shows a traceback when it is interrupted while it starts.
"""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise the process was started to ignore it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
if os.getpid() == 1:
    # Process 1 of a container does not get signals that it neither handles nor ignores: `docker stop` would wait in
    # vain, and then kill the node.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: os._exit(128 + number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def main() -> None:
    """Run the command line, and end the process."""
    from pykraft.cli.interrupt import CommandInterrupted
    from pykraft.cli.main import main as run

    try:
        run()
    except CommandInterrupted as interrupted:
        interrupted.end_process()


if __name__ == "__main__":
    main()

"""`python -m pykraft`: the command line. While it loads, Ctrl-C ends the process without a traceback."""

import signal

if __name__ == "__main__":
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pykraft.cli.main import main

    signal.signal(signal.SIGINT, before)
    main()

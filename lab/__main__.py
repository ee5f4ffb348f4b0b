"""The command line of a clone: ``python -m lab``, which ``bin/pykraft`` starts."""

from pykraft.__main__ import main

if __name__ == "__main__":
    main("lab.cli.main")

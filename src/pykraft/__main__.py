"""`python -m pykraft`: the command line."""

from pykraft.cli.main import main

if __name__ == "__main__":
    main()

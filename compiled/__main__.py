"""``python -m compiled``: build the package with compiled modules and print its folder, for PYTHONPATH.

Exit status: 0, or 2 when this machine cannot compile; the message says what is missing.
"""

import sys

from compiled.build import CannotCompileError, build


def main() -> int:
    """Build, or find what was built before."""
    if len(sys.argv) > 1:
        sys.stdout.write(f"{__doc__}\n")
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    sys.stderr.write("compiled: mypyc and the C compiler take some minutes the first time\n")
    try:
        folder = build()
    except CannotCompileError as error:
        sys.stderr.write(f"compiled: {error}\n")
        return 2
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

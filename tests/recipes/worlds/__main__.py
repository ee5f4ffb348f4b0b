"""``python -m tests.recipes.worlds``: see `tests.recipes.worlds.campaign`."""

import sys

from tests.recipes.worlds.campaign import main

if __name__ == "__main__":
    sys.exit(main())

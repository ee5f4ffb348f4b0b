"""Writes each package's lines of today into budgets.toml: ``python -m tests.tidy.budgets``."""

from tests.tidy.repository import ROOT, files
from tests.tidy.tree_rules import BUDGETS_PATH, package_lines

HEAD = """\
# Lines of Python that a package may have, and the tests. Written by `python -m tests.tidy.budgets`.
# A commit that raises one says why.
"""


def main() -> None:
    """Write the file."""
    rows = (f"{package} = {count}\n" for package, count in sorted(package_lines(list(files())).items()))
    (ROOT / BUDGETS_PATH).write_text(HEAD + "".join(rows))


if __name__ == "__main__":
    main()

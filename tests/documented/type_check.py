"""Checks the types of the documentation's programs as a user's own code: with mypy, or with pyright, in strict mode.

    python -m tests.documented.type_check              # mypy; the stage lint runs it
    python -m tests.documented.type_check --pyright    # pyright or basedpyright, whichever is installed

With ``--pyright`` it also checks that every public name of the packages in `PACKAGES` has a complete type. CI runs only
mypy: pyright needs Node.js, 75 MB to download and 300 MB on disk.

Invariant: no program is left out; those of one page may import each other.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.documented.blocks import blocks
from tests.tidy.repository import ROOT

PAGES = (
    "README.md",
    *("docs/cli.md", "docs/client.md", "docs/node.md", "docs/embedding.md", "docs/membership.md", "docs/new-code.md"),
    *("docs/testing.md", "docs/web.md", "docs/first-steps.md", "docs/recipes.md", "docs/security.md"),
)
PACKAGES = ("pykraft.client", "pykraft.config", "pykraft.errors", "pykraft.machine", "pykraft.recipes")
"""What a program of these pages imports."""


def save_programs(folder: Path) -> list[Path]:
    """Write each program of `PAGES` into the folder. Names are unique, so that they can be checked together."""
    saved: list[Path] = []
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                path = folder / (block.file_name or f"{Path(page).stem}_{block.line}.py")
                assert not path.exists(), f"{block.place}: another program is called {path.name}"
                path.write_text(block.text)
                saved.append(path)
    return saved


def check_with_mypy(folder: Path) -> int:
    """The status of mypy, with the settings and the cache of the stage lint."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    return subprocess.run([*command, *map(str, save_programs(folder))], cwd=ROOT, check=False).returncode


def check_with_pyright(folder: Path) -> int:
    """The status of pyright; 2 if it is not installed, 1 if a public name lacks a type."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pyright = shutil.which("pyright", path=places) or shutil.which("basedpyright", path=places)
    if pyright is None:
        print("type_check: there is no pyright here: pip install basedpyright", file=sys.stderr)
        return 2
    save_programs(folder)
    setting = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(setting))
    checked = subprocess.run([pyright, "--project", str(folder)], cwd=folder, check=False)
    command = [pyright, "--verifytypes", "pykraft", "--ignoreexternal", "--outputjson"]
    asked = subprocess.run(
        command, cwd=folder, check=False, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE
    )
    unknown = unknown_types(json.loads(asked.stdout))
    print("\n".join([*unknown, f"{len(unknown)} public names without a complete type"]))
    return checked.returncode or bool(unknown)


def unknown_types(report: dict[str, Any]) -> list[str]:
    """What a report of ``--verifytypes`` says of names in `PACKAGES`."""
    return [
        f"{symbol['name']}: {'; '.join(each['message'] for each in symbol['diagnostics'])}"
        for symbol in report["typeCompleteness"]["symbols"]
        if not symbol["isTypeKnown"] and symbol["name"].rpartition(".")[0] in PACKAGES
    ]


def main() -> int:
    """See above; the exit status is that of the checker."""
    parser = argparse.ArgumentParser(prog="python -m tests.documented.type_check", description="Check programs' types.")
    parser.add_argument("--pyright", action="store_true", help="with pyright, which must be installed")
    check = check_with_pyright if parser.parse_args().pyright else check_with_mypy
    with tempfile.TemporaryDirectory() as folder:
        return check(Path(folder))


if __name__ == "__main__":
    sys.exit(main())

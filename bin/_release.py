"""Makes a release: the work of bin/release, which says how to call it.

Invariant: either everything is done (version, CHANGELOG.md, commit, tag and the files in dist), or the repository is as
it was. Nothing leaves the machine.

1. Refuse a tree with changes, a version that exists, and a release without entries.
2. Write the version and CHANGELOG.md.
3. Build the distributions and the lists of dependencies from that tree.
4. Commit and tag.

Exit status: 0 done; 1 a tool failed; 2 refused.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hatchling.version.scheme.standard import StandardScheme

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
KINDS = ("added", "changed", "fixed", "removed")
SBOMS = {"run": "", "spark": "-spark"}
"""Locks whose contents are listed, and how the names of their lists end."""


class ReleaseError(Exception):
    """The release is not made; ``status`` is the exit status."""

    def __init__(self, message: str, *, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


class Release:
    """One release of the repository in a folder."""

    def __init__(self, root: Path, wanted: str) -> None:
        """``wanted`` is a version, or which of its numbers grows. Errors: ReleaseError."""
        self.root = root
        self._source = root / "src" / "pykraft" / "__init__.py"
        self.version = next_version(current_version(root), wanted)
        self.tag = f"v{self.version}"

    def check(self) -> None:
        """Step 1. Errors: ReleaseError."""
        if changed := self._git("status", "--porcelain"):
            raise ReleaseError(f"the working tree has changes; commit or remove them first:\n{changed}")
        if self._git("tag", "--list", self.tag):
            raise ReleaseError(f"there is a tag {self.tag} already")
        if not fragments(self.root):
            raise ReleaseError("changelog.d has no entries, so there is nothing to release")

    def make(self) -> list[Path]:
        """Steps 2 to 4; returns what is published. Errors: ReleaseError."""
        try:
            self._write_version()
            today = f"{datetime.now(UTC):%Y-%m-%d}"
            python(self.root, "towncrier", "build", "--yes", "--version", self.version, "--date", today)
            files = build(self.root, self.version)
            self._git("add", "--all", "CHANGELOG.md", "changelog.d", str(self._source))
            self._git("commit", "--quiet", "--message", f"pykraft {self.version}")
            self._git("tag", "--annotate", self.tag, "--message", f"pykraft {self.version}")
        except ReleaseError:
            self._git("restore", "--staged", "--worktree", ".")  # the tree had no changes but ours
            raise
        return files

    def _write_version(self) -> None:
        line = f'__version__ = "{self.version}"'
        self._source.write_text(VERSION.sub(line, self._source.read_text()))

    def _git(self, *words: str) -> str:
        return run(["git", *words], self.root).strip()


def current_version(root: Path) -> str:
    """The version of the sources."""
    found = VERSION.search((root / "src" / "pykraft" / "__init__.py").read_text())
    assert found is not None
    return found[1]


def next_version(current: str, wanted: str) -> str:
    """The version to release; the current one if it was asked for. Errors: ReleaseError."""
    if wanted == current:
        return current
    try:
        return StandardScheme(str(ROOT), {}).update(wanted, current, {})
    except ValueError as error:
        raise ReleaseError(f"{wanted}: {error}; give major, minor, patch or a version from {current} on") from error


def fragments(root: Path) -> list[str]:
    """The entries of the next release."""
    names = sorted(path.name for path in (root / "changelog.d").glob("*.md"))
    return [name for name in names if name.split(".")[-2] in KINDS]


def build(root: Path, version: str) -> list[Path]:
    """The distributions and the lists of dependencies, in dist. Errors: ReleaseError."""
    dist = root / "dist"
    python(root, "hatchling", "build", "-d", str(dist))
    return [*sorted(dist.glob(f"pykraft-{version}[-.]*[lz]")), *write_sboms(root, version)]


def write_sboms(root: Path, version: str) -> list[Path]:
    """A list of dependencies for each of `SBOMS`, from its lock, in dist. Errors: ReleaseError."""
    (root / "dist").mkdir(exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "pyproject.toml"
        described.write_text(_description(root, version))
        for lock, ending in SBOMS.items():
            path = root / "dist" / f"pykraft-{version}{ending}.cdx.json"
            requirements = str(root / "requirements" / f"{lock}.txt")
            options = ("--pyproject", str(described), "--output-reproducible", "--of", "JSON", "-o", str(path))
            python(root, "cyclonedx_py", "requirements", *options, requirements)
            written.append(path)
    return written


def _description(root: Path, version: str) -> str:
    """The project as the tool reads it: it does not know versions that a build finds out."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    fields = {"name": project["name"], "version": version, "description": project["description"]}
    return "[project]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def python(root: Path, module: str, *words: str) -> str:
    """Run a tool of the environment. Errors: ReleaseError."""
    return run([sys.executable, "-W", "ignore", "-m", module, *words], root)


def run(command: Sequence[str], root: Path) -> str:
    """What the command prints. Errors: ReleaseError with its complaint."""
    done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise ReleaseError(f"{' '.join(command)} failed with status {done.returncode}:\n{said}", status=1)
    return done.stdout


def main(words: Sequence[str], root: Path = ROOT) -> int:
    """The command line; see bin/release."""
    parser = argparse.ArgumentParser(prog="bin/release", description="Make a release; nothing is pushed.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("version", nargs="?", help="major, minor, patch, or a version")
    choice.add_argument("--notes", action="store_true", help="print the entries of the next release")
    choice.add_argument("--sbom", action="store_true", help="write the lists of dependencies into dist")
    parser.add_argument("--dry-run", action="store_true", help="check, and print what would be done")
    given = parser.parse_args(words)
    try:
        if given.notes:
            print(python(root, "towncrier", "build", "--draft", "--version", current_version(root)).strip())
        elif given.sbom:
            print(*write_sboms(root, current_version(root)), sep="\n")
        else:
            release = Release(root, given.version)
            release.check()
            if given.dry_run:
                count = len(fragments(root))
                what = f"version {release.version} with {count} entries in CHANGELOG.md, tag {release.tag}"
                print(f"would commit {what}, and build dist")
                return 0
            print(*release.make(), sep="\n")
            print(f"Next: git push --follow-tags, and then uv publish dist/pykraft-{release.version}*.whl and *.tar.gz")
    except ReleaseError as error:
        print(f"bin/release: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Builds what is published, and makes environments that hold it and exactly what its metadata requires.

No index is asked. The environment of the tests already holds the locked packages, so a fresh environment links those
that the metadata of the wheel requires, directly or not, for the extras that a test names; uv then checks that
nothing is missing or has the wrong version. What the metadata forgot is therefore absent, as it would be for a user.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.tidy.repository import ROOT

UV = Path(sys.executable).with_name("uv")
TIMEOUT_S = 120


@dataclass(frozen=True)
class Published:
    """The source distribution, its unpacked folder, and the wheel that was built in that folder."""

    sdist: Path
    unpacked: Path
    wheel: Path


class Fresh:
    """An environment without pip, in which only the wheel and what it requires is installed."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        self._bin = folder / "environment" / "bin"
        self.home = folder / "home"
        self.home.mkdir()
        check([sys.executable, "-m", "venv", "--without-pip", str(self._bin.parent)])
        python = ("--python", str(self._bin / "python"))
        check([str(UV), "pip", "install", "--quiet", "--offline", "--no-index", "--no-deps", *python, str(wheel)])
        [packages] = (self._bin.parent / "lib").glob("python*/site-packages")
        [own] = Distribution.discover(name="pykraft", path=[str(packages)])
        for name in required(own, extras):
            link(distribution(name), packages)
        check([str(UV), "pip", "check", "--offline", *python])

    def run(
        self, program: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's programs to its end, by its path, in an empty folder."""
        return subprocess.run(
            [str(self._bin / program), *arguments],
            cwd=self.home,
            env=self.environment | (environment or {}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        """Start one of the environment's programs; its messages can be read from its standard error."""
        command = [str(self._bin / program), *arguments]
        return subprocess.Popen(command, cwd=self.home, env=self.environment, stderr=subprocess.PIPE, text=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a shell in which the environment is not activated."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home)}


def publish(folder: Path) -> Published:
    """Build the source distribution, unpack it elsewhere, and build the wheel there."""
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    check([*hatchling, "-t", "sdist"], cwd=ROOT)
    [sdist] = folder.glob("*.tar.gz")
    (folder / "source").mkdir()
    check(
        ["tar", "-xf", str(sdist), "-C", str(folder / "source")]
    )  # Python 3.11.2 has no filter, and newer ones ask for it
    [unpacked] = (folder / "source").iterdir()
    check([*hatchling, "-t", "wheel"], cwd=unpacked)
    [wheel] = folder.glob("*.whl")
    return Published(sdist, unpacked, wheel)


def required(own: Distribution, extras: Sequence[str]) -> set[str]:
    """The names of all packages that this one needs here, directly or not."""
    found: set[str] = set()
    waiting = list(_requirements(own, extras))
    while waiting:
        one = waiting.pop()
        name = one.name.lower().replace("_", "-")
        if name not in found:
            found.add(name)
            waiting += _requirements(distribution(name), sorted(one.extras))
    return found


def _requirements(package: Distribution, extras: Sequence[str]) -> Iterator[Requirement]:
    for text in package.requires or ():
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield one


def link(package: Distribution, packages: Path) -> None:
    """Make an installed package visible in another environment, with its metadata."""
    names = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
    for name in sorted(names):
        there = Path(str(package.locate_file(name)))
        if name.endswith(".dist-info"):
            shutil.copytree(there, packages / name)  # uv does not see a link
        else:
            (packages / name).symlink_to(there)


def check(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

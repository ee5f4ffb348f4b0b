"""Make the environment, and install locked requirements into it: the slow path of bin/_environment.

Owns .venv, or what PYKRAFT_ENVIRONMENT names instead. Invariant: a copy of a lock file in its folder ``installed``
means that exactly this lock was installed; it is written last, so a set-up that was killed is done again. One set-up
runs at a time; a second one waits for the first and finds its work done. It runs on any Python >= 3.11 with the
standard library only, and it refuses to know what the requirements are for.

Usage: python3 bin/_setup.py SET...   where requirements/SET.txt is a lock file
Exit status: 0 done; 1 pip failed; 2 this machine lacks something; 130 interrupted.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten

ROOT = Path(__file__).resolve().parent.parent
BUILT_WITH = {"spark": "build"}
"""Sets with packages that come as source only, and the set with their build tools."""
NO_NETWORK = (
    "connection broken by",
    "No route to host",
    "Name or service not known",
    "Network is unreachable",
    "timed out",
)
"""What pip prints when it cannot reach the index; its other output then only says that it found nothing."""
NO_SPACE = "No space left on device"
LINES_MAX = 12
SILENCE_S = 4.0
"""No command is waited for longer without a word: a download takes minutes on a slow line."""
INTERRUPTED = 130
"""128 and the number of SIGINT, as in a shell."""


class SetupError(Exception):
    """The environment cannot be made; ``status`` is the exit status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Environment:
    """The environment of one clone.

    Errors, of all methods: SetupError.
    """

    def __init__(self, root: Path) -> None:
        self._requirements = root / "requirements"
        self._root = root
        self._path = root / os.environ.get("PYKRAFT_ENVIRONMENT", ".venv")
        self._installed = self._path / "installed"
        self._python = self._path / "bin" / "python"
        self._lock = self._path / "lock"

    def ensure(self, names: Sequence[str]) -> None:
        """Install these sets unless they are already installed as their lock files say."""
        for name in names:
            if not self._lock_file(name).is_file():
                known = ", ".join(sorted(path.stem for path in self._requirements.glob("*.txt")))
                raise SetupError(f"there is no set of requirements {name!r}; there are {known}", status=2)
        self._path.mkdir(exist_ok=True)
        with self._alone():
            if not self._is_usable():
                self._create()
            self._sign()
            for name in names:
                for each in (BUILT_WITH.get(name), name):
                    if each is not None and not self._has(each):
                        self._install(each)

    def _lock_file(self, name: str) -> Path:
        return self._requirements / f"{name}.txt"

    def _has(self, name: str) -> bool:
        copy = self._installed / f"{name}.txt"
        return copy.is_file() and copy.read_bytes() == self._lock_file(name).read_bytes()

    def _is_usable(self) -> bool:
        """Whether this is an environment of this clone, made by this script or by hand; a moved one has wrong paths."""
        made_for = self._installed / "clone"
        if made_for.is_file():
            return made_for.read_text().rstrip("\n") == str(self._root) and os.access(self._python, os.X_OK)
        if not os.access(self._python, os.X_OK):
            return False
        found = subprocess.run([str(self._python), "-m", "pip", "--version"], capture_output=True, check=False)
        return found.returncode == 0

    def _create(self) -> None:
        say(f"making {self._path} with Python {sys.version.split()[0]}")
        for old in self._path.iterdir():
            if old != self._lock:
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        if find_spec("ensurepip") is None:  # Debian's and Ubuntu's Pythons have it in a package of its own
            packages = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
            done = subprocess.run([str(self._root / "bin" / "_packages"), packages], check=False)
            if done.returncode != 0:
                raise SetupError(f"{sys.executable} cannot make environments without {packages}", status=2)
        run([sys.executable, "-m", "venv", str(self._path)])

    def _sign(self) -> None:
        """Add the package and `lab` to the environment's path, and record which clone it belongs to."""
        if (self._installed / "clone").is_file():
            return
        packages = run([str(self._python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        (Path(packages) / "pykraft.pth").write_text(f"{self._root / 'src'}\n{self._root}\n")
        self._installed.mkdir(exist_ok=True)
        (self._installed / "clone").write_text(f"{self._root}\n")

    def _install(self, name: str) -> None:
        started = time.monotonic()
        say(f"installing requirements/{name}.txt")
        command = [
            str(self._python),
            *("-m", "pip", "--disable-pip-version-check", "--no-input", "install"),
            *("--progress-bar", "off", "--no-warn-script-location"),
            *("--require-hashes", "--no-deps", "--requirement", str(self._lock_file(name))),
            *(["--no-build-isolation"] if name in BUILT_WITH else []),
        ]
        try:
            run(command)
        except SetupError as error:
            raise SetupError(f"requirements/{name}.txt: {explained(str(error))}", status=error.status) from None
        copy = self._installed / f"{name}.txt"
        fresh = copy.with_suffix(".fresh")
        shutil.copyfile(self._lock_file(name), fresh)
        fresh.replace(copy)
        say(f"installed requirements/{name}.txt in {time.monotonic() - started:.0f} s")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for another set-up of {self._path}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def run(command: Sequence[str]) -> str:
    """What the command prints; while it runs, what it printed last is told now and then.

    Errors: SetupError with what it printed and what it complained of, when it fails.
    """
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            printed, complained = (each.decode(errors="replace") for each in outputs(process))
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        said = "\n".join([*printed.splitlines(), *complained.splitlines()][-LINES_MAX:])
        raise SetupError(f"this failed with status {process.returncode}: {' '.join(command)}\n{said}", status=1)
    return printed.removesuffix("\n")


def outputs(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Wait for what it prints and what it complains of, and tell the last line so far every `SILENCE_S`."""
    started = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=SILENCE_S)
        except subprocess.TimeoutExpired as waiting:
            lines = (waiting.output or b"").decode(errors="replace").splitlines()
            last = next(filter(str.strip, reversed(lines)), "")
            say(f"{time.monotonic() - started:4.0f} s  {shorten(last, 80, placeholder=' …')}".rstrip())


def explained(story: str) -> str:
    """How to fix a failed install, if that is known; else pip's own output."""
    if NO_SPACE in story:
        return f"the disk is full ({ROOT}, or pip's temporary files); make room and start again"
    if any(sign in story for sign in NO_NETWORK):
        return (
            "the package index cannot be reached, and packages must be fetched the first time. Check the network; "
            "behind a proxy set HTTPS_PROXY; another index is named by PIP_INDEX_URL, a folder of wheels by "
            "PIP_FIND_LINKS with PIP_NO_INDEX=1. Then start again: what is installed stays"
        )
    return story


def say(text: str) -> None:
    """Print one line of progress on standard error."""
    print(f"pykraft: {text}", file=sys.stderr, flush=True)


def main(names: Sequence[str]) -> int:
    """The command line; see the module."""
    try:
        Environment(ROOT).ensure(names)
    except SetupError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        say("interrupted; the next start continues, and what is installed stays")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Cleans up after this process if it dies without doing so, for example by kill -9.

A `Keeper` is a small process that knows which child processes and temporary folders we have. When the pipe from us to
it is closed, because we died, it kills those processes and removes those folders. It is a shell, since a shell starts
in a millisecond and takes a megabyte; it has a session of its own, so that no signal of a terminal reaches it.

A child could watch such a pipe itself, but not while it is paused, and a Java process not at all.

Invariant: a process leaves the list as soon as it is reaped, so its id does not belong to another process while it is
on the list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pykraft.process.signals import signals_later

SCRIPT: Final = """
while IFS= read -r line; do
    case $line in
    processes*) processes=${line#processes} ;;
    folder*) set -- "$@" "${line#folder }" ;;
    esac
done
[ -z "$processes" ] || kill -s KILL -- $processes 2>/dev/null
tries=100
# What a process wrote while it was killed makes rm fail once.
until [ $# -eq 0 ] || rm -rf -- "$@" 2>/dev/null || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
done
"""


class Keeper:
    """The process; close it after everything that it knows of is gone."""

    def __init__(self) -> None:
        with signals_later():
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT, "pykraft-keeper"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )

    def know_processes(self, ids: Iterable[int]) -> None:
        """These are all child processes that there are now; a negative id is that of a process group."""
        self._tell(" ".join(map(str, ("processes", *ids))))

    def know_folder(self, folder: Path) -> None:
        """Also remove this folder."""
        path = str(folder.resolve())
        if "\n" not in path:  # the keeper would take the first line for the folder
            self._tell(f"folder {path}")

    def stay(self) -> None:
        """Leave it until this process ends; `close` then does nothing."""
        _STAYING.append(self)

    def close(self) -> None:
        """End it, without killing or removing anything."""
        if self in _STAYING:
            return
        self._process.kill()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        """Errors: none; if somebody killed the keeper, we go on without it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), os.fsencode(line) + b"\n")


_STAYING: Final[list[Keeper]] = []
"""Their pipes stay open."""


def never(error: BaseException | None) -> bool:
    """A temporary folder is never kept."""
    del error
    return False


def temporary_root() -> str:
    """The folder for temporary ones. To find it, Python writes a file there, which an interrupt would leave behind."""
    with signals_later():
        return tempfile.gettempdir()


@contextmanager
def temporary_folder(
    prefix: str, parent: Path | None = None, *, is_kept: Callable[[BaseException | None], bool] = never
) -> Iterator[Path]:
    """A new folder below ``parent``, by default the system's temporary folder; removed however this process ends.

    At the end of the block ``is_kept`` gets the error that ended it, if there is one, and may decide that the folder
    stays.
    """
    keeper = Keeper()
    folder: Path | None = None
    try:
        with signals_later():
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            keeper.know_folder(folder)
        yield folder
    except BaseException as error:
        is_left = is_kept(error)
        _remove(folder, unless=is_left)
        if not (is_left or isinstance(error, Exception)):
            # An interrupt. Threads go on until the process ends, and what they write meanwhile is for the keeper.
            keeper.stay()
        raise
    else:
        _remove(folder, unless=is_kept(None))
    finally:
        keeper.close()


def _remove(folder: Path | None, *, unless: bool) -> None:
    if folder is not None and not unless:
        shutil.rmtree(folder, ignore_errors=True)

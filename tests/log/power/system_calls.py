"""Records the system calls that change a directory tree, and carries them out once more on the simulator's disk.

The functions of `os` that `pykraft.log.os_fs` and its neighbours use are replaced while a recording runs. Each still
does its work, and is then noted with the number of the file behind its descriptor, not with the path that the caller
had in mind. So a sync of the wrong descriptor is seen for what it is. A test compares what the calls add up to with the
real directory: a call that nobody recorded shows as a difference.

Source: ALICE (Pillai et al., OSDI 2014), which records with strace and replays on a model of a file system.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from pykraft.sim.machine.disk import ROOT, Tree, VirtualDisk, VirtualFile
from pykraft.sim.machine.inode import Fate

Call: TypeAlias = "Callable[[Replay], None]"
"""A call that was recorded: it can be made again, on the disk of a replay."""


@dataclass(slots=True)
class Recording:
    """The calls below one directory, which is there and durable before the first of them."""

    top: Path
    calls: list[Call] = field(default_factory=list)
    _files: dict[Path, int] = field(default_factory=dict)
    _descriptors: dict[int, int | Path] = field(default_factory=dict)
    """What an open descriptor stands for: the number of a file, or a directory."""
    _identities: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Device and inode of each file, to check the numbers with."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record until the block ends."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "close", "mkdir"):
                patch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
            for name in ("pwrite", "pwritev", "ftruncate", "fsync", "fdatasync"):
                patch.setattr(os, name, self._on_descriptor(name, getattr(os, name)))
            for name in ("rename", "replace"):
                patch.setattr(os, name, self._rename(getattr(os, name)))
            for name in ("remove", "unlink"):
                patch.setattr(os, name, self._remove(getattr(os, name)))
            yield

    def _is_below(self, path: object) -> bool:
        return isinstance(path, (str, Path)) and Path(path).is_relative_to(self.top)

    def _open(self, real: Any) -> Any:
        def record(path: Any, flags: int, *others: Any, **named: Any) -> int:
            was_there = os.path.lexists(path)
            descriptor: int = real(path, flags, *others, **named)
            if self._is_below(path):
                self._descriptors[descriptor] = self._opened(Path(path), descriptor, is_new=not was_there)
            return descriptor

        return record

    def _opened(self, path: Path, descriptor: int, *, is_new: bool) -> int | Path:
        status = os.fstat(descriptor)
        if path.is_dir():
            return path
        identity = status.st_dev, status.st_ino
        if is_new:
            file = len(self._identities)
            self._identities[file] = identity
            self._files[path] = file
            self.calls.append(partial(Replay.create, path=path, file=file))
        file = self._files[path]
        assert self._identities[file] == identity, f"{path} is another file than the recorded calls made it"
        return file

    def _close(self, real: Any) -> Any:
        def record(descriptor: int) -> None:
            self._descriptors.pop(descriptor, None)
            real(descriptor)

        return record

    def _mkdir(self, real: Any) -> Any:
        def record(path: Any, *others: Any, **named: Any) -> None:
            real(path, *others, **named)
            if self._is_below(path):
                self.calls.append(partial(Replay.mkdir, path=Path(path)))

        return record

    def _on_descriptor(self, name: str, real: Any) -> Any:
        def record(descriptor: int, *others: Any) -> Any:
            done = real(descriptor, *others)
            reached = self._descriptors.get(descriptor)
            if isinstance(reached, Path):
                assert name == "fsync", f"{name} of a directory"
                self.calls.append(partial(Replay.sync_dir, path=reached))
            elif reached is not None:
                self.calls.append(_noted(name, reached, others, done))
            return done

        return record

    def _rename(self, real: Any) -> Any:
        def record(old: Any, new: Any) -> None:
            real(old, new)
            if self._is_below(old):
                self._files[Path(new)] = self._files.pop(Path(old))
                self.calls.append(partial(Replay.rename, old=Path(old), new=Path(new)))

        return record

    def _remove(self, real: Any) -> Any:
        def record(path: Any) -> None:
            real(path)
            if self._is_below(path):
                del self._files[Path(path)]
                self.calls.append(partial(Replay.remove, path=Path(path)))

        return record


def _noted(name: str, file: int, arguments: Sequence[Any], done: Any) -> Call:
    match name, arguments:
        case "pwrite", (data, position):
            return partial(Replay.write, file=file, position=position, data=bytes(data)[:done])
        case "pwritev", (parts, position):
            return partial(Replay.write, file=file, position=position, data=b"".join(parts)[:done])
        case "ftruncate", (size_bytes,):
            return partial(Replay.truncate, file=file, size_bytes=size_bytes)
        case _:
            return partial(Replay.sync, file=file)


def real_tree(top: Path) -> dict[Path, bytes | None]:
    """What is below a directory of the real file system, by path below it: bytes of files, None for directories."""
    return {each.relative_to(top): None if each.is_dir() else each.read_bytes() for each in sorted(top.rglob("*"))}


class Replay:
    """The disk below one directory, which is durable itself and is the root here."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._disk = VirtualDisk(Random(1))
        self._files: dict[int, VirtualFile] = {}

    def mkdir(self, path: Path) -> None:
        self._disk.mkdir(self._at(path))

    def create(self, path: Path, file: int) -> None:
        self._files[file] = self._disk.open(self._at(path), create=True)

    def write(self, file: int, position: int, data: bytes) -> None:
        self._files[file].pwrite([data], position)

    def truncate(self, file: int, size_bytes: int) -> None:
        self._files[file].truncate(size_bytes)

    def sync(self, file: int) -> None:
        self._files[file].sync()

    def sync_dir(self, path: Path) -> None:
        self._disk.sync_dir(self._at(path))

    def rename(self, old: Path, new: Path) -> None:
        self._disk.rename(self._at(old), self._at(new))

    def remove(self, path: Path) -> None:
        self._disk.remove(self._at(path))

    def left(self, fate: Fate) -> Tree:
        """What is there after a power loss now, by path below the directory; the disk itself stays as it is."""
        tree = self._disk.left(fate)
        return {path.relative_to(ROOT): content for path, content in tree.items() if path != ROOT}

    def _at(self, path: Path) -> Path:
        return ROOT / path.relative_to(self._top)

"""Recorded system calls, carried out once more on the simulator's disk, which knows what a power loss leaves.

The recording says what `OsFs` really asked of the kernel, by the number of the file behind each descriptor. So what is
synced here is what was synced there, whatever path the caller had in mind.

Source: ALICE (OSDI 2014), which replays system calls on a model of a file system.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from pykraft.sim.machine.disk import ROOT, Tree, VirtualDisk, VirtualFile
from pykraft.sim.machine.fate import Fate
from tests.log.power.system_calls import (
    Call,
    Create,
    MakeDirectory,
    Remove,
    Rename,
    Resize,
    SyncDirectory,
    SyncFile,
    Write,
)


class Replay:
    """The disk below one directory, which is durable itself and is the root here."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._disk = VirtualDisk(Random(1))
        self._files: dict[int, VirtualFile] = {}

    def apply(self, call: Call) -> None:
        """Carry out one more call."""
        disk, at = self._disk, self._at
        match call:
            case MakeDirectory(path):
                disk.mkdir(at(path))
            case Create(path, file):
                self._files[file] = disk.open(at(path), create=True)
            case Write(file, position, data):
                self._files[file].pwrite([data], position)
            case Resize(file, size_bytes):
                self._files[file].truncate(size_bytes)
            case SyncFile(file):
                self._files[file].sync()
            case SyncDirectory(path):
                disk.sync_dir(at(path))
            case Rename(old, new):
                disk.rename(at(old), at(new))
            case Remove(path):
                disk.remove(at(path))

    def left(self, fate: Fate) -> Tree:
        """What is there after a power loss now, by path below the directory; the disk itself stays as it is."""
        tree = self._disk.left(fate)
        return {path.relative_to(ROOT): content for path, content in tree.items() if path != ROOT}

    def _at(self, path: Path) -> Path:
        return ROOT / path.relative_to(self._top)

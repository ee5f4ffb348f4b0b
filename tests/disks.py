"""The simulator's disk, with what a test wants of one: a list of its operations, and a script of when they fail.

It adds no behaviour of a disk. What a kill, a power loss or a failed sync leaves is up to
`pykraft.sim.machine.disk.VirtualDisk`, whose tests state it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from pykraft.errors import ReadError
from pykraft.sim.machine.disk import Directory, DiskError, Inode, Interrupted, VirtualDisk, VirtualFile
from pykraft.types import Buffer


class ScriptedFile(VirtualFile):
    """A file whose bytes may be lost, on a disk that may be full."""

    def __init__(self, disk: ScriptedDisk, inode: Inode, path: Path, *, is_writable: bool) -> None:
        super().__init__(disk, inode, path, is_writable=is_writable)
        self._script = disk

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `pykraft.log.fs.File`."""
        lost = self._script.lost.get(self._path.name, range(0))
        if max(lost.start, position) < min(lost.stop, position + size_bytes, self.size()):
            raise ReadError(self._path, position=position, expected=f"{size_bytes} bytes", found="Input/output error")
        return super().pread(size_bytes, position)

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `pykraft.log.fs.File`; a full disk takes the bytes for which it has room."""
        data, room_bytes = b"".join(parts), self._script.room_bytes()
        done = super().pwrite([data[:room_bytes]], position)
        if done < len(data):
            raise DiskError(self._path, f"cannot write at {position}: No space left on device")
        return done


class ScriptedDisk(VirtualDisk):
    """See the module. ``operations`` lists (operation, file name) of everything that changes the disk."""

    def __init__(self, rng: Random | None = None) -> None:
        super().__init__(rng or Random(1))
        self.operations: list[tuple[str, str]] = []
        self.capacity_bytes: int | None = None
        self.last_operation: int | None = None
        """Lose the power in the operation after this many."""
        self.lost: dict[str, range] = {}
        """By name of a file: bytes of it that the disk cannot read any more."""
        self.fail: Callable[[str, Path], bool] = lambda _operation, _path: False
        """Which operations fail."""

    def operate(self, operation: str, path: Path, new_path: Path | None = None) -> None:
        """See `VirtualDisk.operate`; a rename is listed by its new name."""
        super().operate(operation, path, new_path)
        path = new_path or path
        if self.last_operation is not None and len(self.operations) >= self.last_operation:
            raise Interrupted(loses_power=True)
        self.operations.append((operation, path.name))
        if self.fail(operation, path):
            raise DiskError(path, f"cannot {operation}: Input/output error")

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> ScriptedFile:
        """See `pykraft.log.fs.Fs`."""
        inode = super().open(path, create=create, write=write).inode
        return ScriptedFile(self, inode, path, is_writable=create or write)

    def kill(self) -> None:
        """Kill -9: the process is gone, the page cache stays."""
        self.drop_handles()
        self.last_operation = None

    def power_loss(self, rng: Random) -> None:
        """Keep what was synced and any part of the rest."""
        self.rng = rng
        self.kill()
        self.lose_power()

    def used_bytes(self) -> int:
        """Bytes on the disk; the zeros at the end of a file take none."""
        inodes = [inode for directory in self._directories.values() for inode in directory.cached.values()]
        return sum(len(inode.cached.rstrip(b"\0")) for inode in inodes)

    def room_bytes(self) -> int:
        """Bytes that can still be written."""
        return 2**62 if self.capacity_bytes is None else max(self.capacity_bytes - self.used_bytes(), 0)

    def prepare(self, path: Path) -> Directory:
        """Put a directory there with its parents, durably and unlisted."""
        for parent in path.parents:
            self._directories.setdefault(parent, Directory())
        return self._directories.setdefault(path, Directory())

    def write(self, path: Path, content: bytes) -> None:
        """Put a file there, durably and unlisted: how tests prepare a directory or damage a file."""
        directory = self.prepare(path.parent)
        inode = directory.cached.get(path.name) or Inode()
        inode.resize(0)
        inode.write(content, 0)
        inode.sync()
        directory.cached[path.name] = directory.synced[path.name] = inode

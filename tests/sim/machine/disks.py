"""A virtual disk with one directory, and what a power loss can make of its one file."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from pykraft.log.fs import make_directory
from pykraft.sim.machine.disk import VirtualDisk

DIRECTORY = Path("/disk/log")
PATH = DIRECTORY / "a"
SEEDS = range(60)


def disk(seed: int = 1) -> VirtualDisk:
    made = VirtualDisk(Random(seed))
    make_directory(made, DIRECTORY)
    return made


def write(made: VirtualDisk, data: bytes, *, position: int = 0, path: Path = PATH) -> None:
    made.open(path, create=True).pwrite([data], position)


def write_durably(made: VirtualDisk, data: bytes, path: Path = PATH) -> None:
    file = made.open(path, create=True)
    file.pwrite([data], 0)
    file.sync()
    made.sync_dir(DIRECTORY)


def fates(*acts: Callable[[VirtualDisk], object]) -> set[bytes | None]:
    """What a power loss can make of the file; None: no file."""
    found = set()
    for seed in SEEDS:
        made = disk(seed)
        for act in acts:
            act(made)
        made.lose_power()
        found.add(made.read(PATH) if made.exists(PATH) else None)
    return found


def durably(data: bytes) -> Callable[[VirtualDisk], object]:
    return lambda made: write_durably(made, data)

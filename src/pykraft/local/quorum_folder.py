"""The folder of a local quorum that outlives the command that started it: what it remembers, its lock, its removal.

    quorum.json                 version, cluster id, and the port of each node
    lock                        locked while a command starts or stops nodes
    n1/server.properties        one folder for each node
    n1/data, n1/node.log, n1/pid

Invariant: the ports and the cluster id never change, so the nodes that start here later are the same quorum. Only files
that pykraft made are ever removed.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.voters import HOST, LISTENER, PARTITION, free_ports, voter_properties, write_properties
from pykraft.types import Endpoint, Uuid, uuid_text

VERSION: Final = 1
NODES_MAX: Final = 15
FILE_NAME: Final = "quorum.json"
DRAFT_NAME: Final = f"{FILE_NAME}.tmp"
LOCK_NAME: Final = "lock"
CONFIG_NAME: Final = "server.properties"
LOG_NAME: Final = "node.log"
PID_NAME: Final = "pid"
DATA_NAME: Final = "data"
_OWN_FILES: Final = (CONFIG_NAME, LOG_NAME, PID_NAME)
_OF_DATA: Final = ("meta.properties", "replica-proof", ".lock")
_EXTRA: Final = {"pykraft.client.listeners": LISTENER}
"""On the loopback interface only this machine can append."""
_LOG_DIRS: Final = re.compile(r"(?m)^log\.dirs=.*$")
_START_ANEW: Final = "use another folder (--dir), or remove this one to start anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFolder:
    """An existing local quorum; ``ports`` are by node id."""

    path: Path
    cluster_id: str
    ports: Mapping[int, int]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The quorum in this folder. Errors: UsageError when there is none."""
        file = path / FILE_NAME
        try:
            content: Any = json.loads(file.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                f"there is no local quorum in {path}: `pykraft local up` makes one, --dir names it"
            ) from None
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"{file} is damaged ({error}): {_START_ANEW}") from error
        try:
            version, cluster_id = content["version"], content["clusterId"]
            ports = {int(node_id): int(port) for node_id, port in content["ports"].items()}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UsageError(f"{file} is damaged ({error!r}): {_START_ANEW}") from error
        if version != VERSION or not ports or not isinstance(cluster_id, str):
            raise UsageError(f"{file} is of version {version}, and this pykraft knows {VERSION}: {_START_ANEW}")
        return cls(path=path.absolute(), cluster_id=cluster_id, ports=ports)

    @classmethod
    def create(cls, path: Path, *, node_count: int, first_port: int | None = None) -> Self:
        """Make the folder of a new quorum, on ``first_port`` and the next ones, or on free ones.

        The caller holds its lock. Errors: UsageError when the folder cannot be written.
        """
        chosen = free_ports(node_count) if first_port is None else range(first_port, first_port + node_count)
        ports = dict(enumerate(chosen, start=1))
        folder = cls(path=path.absolute(), cluster_id=uuid_text(Uuid(os.urandom(16))), ports=ports)
        content = {"version": VERSION, "clusterId": folder.cluster_id, "ports": ports}
        draft = path / DRAFT_NAME
        try:
            draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
            draft.replace(path / FILE_NAME)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: give another folder with --dir") from error
        return folder

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where the nodes listen, in the order of their ids."""
        return tuple(Endpoint(HOST, port) for _, port in sorted(self.ports.items()))

    @property
    def bootstrap(self) -> str:
        """The same for ``--bootstrap-controller``."""
        return ",".join(map(str, self.endpoints))

    def home(self, node_id: int) -> Path:
        return self.path / f"n{node_id}"

    def write_configs(self) -> None:
        """Write the properties file of each node that has none; one that exists keeps what people wrote into it.

        Errors: UsageError.
        """
        for node_id in self.ports:
            home = self.home(node_id)
            data, config = home / DATA_NAME, home / CONFIG_NAME
            try:
                home.mkdir(exist_ok=True)
                if config.exists():
                    # The folder may have been moved since, and the node's data with it.
                    before = config.read_text(encoding="utf-8")
                    text = _LOG_DIRS.sub(f"log.dirs={data}".replace("\\", r"\\"), before)
                    if text != before:
                        config.write_text(text, encoding="utf-8")
                else:
                    write_properties(config, voter_properties(data, node_id=node_id, ports=self.ports, extra=_EXTRA))
            except OSError as error:
                raise UsageError(f"{error.filename}: {error.strerror}: give another folder with --dir") from error

    def delete(self) -> list[Path]:
        """Remove what pykraft made here, whose nodes must be down; returns what is left because others made it."""
        left = self.delete_nodes()
        # The lock goes last: until then no other command makes a new quorum here.
        left += [path for path in _remove(self.path, (FILE_NAME, LOCK_NAME)) if not self._is_home(path)]
        return left

    def delete_nodes(self) -> list[Path]:
        """Remove what pykraft made of the nodes; returns what is left of them."""
        left: list[Path] = []
        for node_id in self.ports:
            home = self.home(node_id)
            data = home / DATA_NAME
            if data.is_symlink():
                left.append(data)  # somebody put the data elsewhere, and it is for them to remove it
            elif data.is_dir():
                shutil.rmtree(data / PARTITION, ignore_errors=True)
                left += _remove(data, _OF_DATA)
            if home.is_dir():
                left += [path for path in _remove(home, _OWN_FILES) if path != data]
        return left

    def _is_home(self, path: Path) -> bool:
        return path in {self.home(node_id) for node_id in self.ports}


def _remove(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Remove these files, and then the folder if nothing else is in it; returns what is."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    left = sorted(folder.iterdir())
    if not left:
        folder.rmdir()
    return left


def delete_new(path: Path) -> None:
    """Remove a quorum that was just begun and whose nodes are down, but not its folder. The caller holds its lock."""
    if (path / FILE_NAME).exists():
        QuorumFolder.read(path).delete_nodes()
    for name in (DRAFT_NAME, FILE_NAME, LOCK_NAME):
        (path / name).unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make the folder itself, if need be. Errors: UsageError, also for a folder with other files and no quorum."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK_NAME)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{path} is not a directory: give another folder with --dir") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: give another folder with --dir") from error
    if names and FILE_NAME not in names:
        raise UsageError(f"{path} holds {names[0]!r} and no local quorum: give another folder with --dir")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Within this block no other command starts or stops nodes in this folder.

    Errors: LocalQuorumError when another one does so now; UsageError when the folder cannot be written.
    """
    try:
        lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: give another folder with --dir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LocalQuorumError(
            f"another `pykraft local` command starts or stops nodes in {path} now: repeat this one when it has ended"
        ) from None
    finally:
        os.close(lock)

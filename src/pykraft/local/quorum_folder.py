"""The folder of a local quorum that outlives the command that started it: what it remembers, its lock, its removal.

    quorum.json                 version, cluster id, and the port of each node
    lock                        locked while a command starts or stops nodes
    n1/server.properties        one folder for each node
    n1/data, n1/node.log, n1/pid
    certs/, client.properties   of a quorum with TLS: its authority, and what its tools need

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
from pykraft.security.authority import Authority, write_private
from pykraft.security.settings import IN_THE_CLEAR, Security
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
CERTIFICATES_NAME: Final = "certs"
CLIENT_NAME: Final = "client.properties"
_OWN_FILES: Final = (CONFIG_NAME, LOG_NAME, PID_NAME)
_OF_DATA: Final = ("meta.properties", "replica-proof", ".lock")
_EXTRA: Final = {"pykraft.client.listeners": LISTENER}
"""On the loopback interface only this machine can append."""
_TLS: Final = "SSL"
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
    def create(cls, path: Path, *, node_count: int, first_port: int | None = None, has_tls: bool = False) -> Self:
        """Make the folder of a new quorum, on ``first_port`` and the next ones, or on free ones.

        With ``has_tls`` it has an authority of its own. The caller holds its lock. Errors: UsageError when the folder
        cannot be written, or without the package for certificates.
        """
        chosen = free_ports(node_count) if first_port is None else range(first_port, first_port + node_count)
        ports = dict(enumerate(chosen, start=1))
        folder = cls(path=path.absolute(), cluster_id=uuid_text(Uuid(os.urandom(16))), ports=ports)
        content = {"version": VERSION, "clusterId": folder.cluster_id, "ports": ports}
        draft = path / DRAFT_NAME
        try:
            if has_tls:
                folder._write_certificates()
            draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
            draft.replace(path / FILE_NAME)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: give another folder with --dir") from error
        return folder

    @property
    def client_config(self) -> Path | None:
        """The properties file for ``--command-config``; None for a quorum without TLS."""
        file = self.path / CLIENT_NAME
        return file if file.exists() else None

    @property
    def security(self) -> Security:
        """How its nodes are reached. Errors: ConfigError for a file that somebody changed."""
        return IN_THE_CLEAR if self.client_config is None else Security.of_client(self._client_properties())

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
        if self.client_config is not None:
            write_properties(self.client_config, self._client_properties())  # the folder may have been moved since
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
                    extra = _EXTRA if self.client_config is None else self._secured(node_id)
                    write_properties(config, voter_properties(data, node_id=node_id, ports=self.ports, extra=extra))
            except OSError as error:
                raise UsageError(f"{error.filename}: {error.strerror}: give another folder with --dir") from error

    def delete(self) -> list[Path]:
        """Remove what pykraft made here, whose nodes must be down; returns what is left because others made it."""
        left = self.delete_nodes() + _delete_certificates(self.path)
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

    def _write_certificates(self) -> None:
        """Errors: OSError; UsageError without the package."""
        authority = Authority.create()
        folder = self.path / CERTIFICATES_NAME
        folder.mkdir()
        write_private(folder / "ca-key.pem", authority.pem)
        write_private(folder / "ca.pem", authority.certificate_pem)
        for name in (*(f"node{node_id}" for node_id in self.ports), "client"):
            write_private(folder / f"{name}.pem", authority.issue(name, [name, "localhost", HOST]))
        write_properties(self.path / CLIENT_NAME, self._client_properties())

    def _client_properties(self) -> dict[str, str]:
        return {"security.protocol": _TLS, **_stores(self.path / CERTIFICATES_NAME, "client")}

    def _secured(self, node_id: int) -> dict[str, str]:
        return {
            "listeners": f"{_TLS}://{HOST}:{self.ports[node_id]}",
            "controller.listener.names": _TLS,
            "pykraft.client.listeners": _TLS,
            "ssl.client.auth": "required",
            # Relative to the node's folder, where it runs: all of it may be moved.
            **_stores(Path("..", CERTIFICATES_NAME), f"node{node_id}"),
        }

    def _is_home(self, path: Path) -> bool:
        return path in {self.home(node_id) for node_id in self.ports}


def _stores(folder: Path, name: str) -> dict[str, str]:
    return {"ssl.keystore.location": str(folder / f"{name}.pem"), "ssl.truststore.location": str(folder / "ca.pem")}


def _delete_certificates(path: Path) -> list[Path]:
    """Remove those of the quorum in this folder; returns what is left because others made it."""
    (path / CLIENT_NAME).unlink(missing_ok=True)
    folder = path / CERTIFICATES_NAME
    names = ("ca-key.pem", "ca.pem", "client.pem", *(f"node{node_id}.pem" for node_id in range(1, NODES_MAX + 1)))
    return _remove(folder, names) if folder.is_dir() else []


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
    _delete_certificates(path)
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

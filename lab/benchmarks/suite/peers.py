"""Builds and runs other Rafts: three processes on loopback, one of which proposes; see ``peers/README.md``.

What is built goes into the user's cache folder, by the hash of its sources. Invariant: every peer is measured in the
same way: a node prints when its window begins and ends, and the processor time of all processes is read at both times.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lab.bench.measure import Usage, usage_of
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Child, Children, temporary_folder, wait_until
from pykraft.local.voters import HOST, free_ports
from pykraft.process.extras import cache_folder

SOURCES: Final = Path(__file__).resolve().parents[1] / "peers"
NODES: Final = 3
GO_PLACES: Final = ("/usr/local/go/bin", "/usr/lib/go/bin", str(Path.home() / "go" / "bin"))
"""Where Go is on machines whose PATH lacks it."""
BUILD_TIMEOUT_S: Final = 900.0
EXTRA_S: Final = 60.0
"""How much longer than its load a peer may take, mostly until it has a leader."""
Name = Literal["pysyncobj", "hashicorp", "etcd", "dragonboat", "rqlite"]
PROPOSERS: Final[tuple[Name, ...]] = ("pysyncobj", "hashicorp", "etcd", "dragonboat")
PEERS: Final[tuple[Name, ...]] = (*PROPOSERS, "rqlite")
"""rqlite has commands of a state machine only."""
RQLITED: Final = "github.com/rqlite/rqlite/v8/cmd/rqlited"
"""rqlite's server, which is a program of its own."""


class PeerUnavailableError(UsageError):
    """This machine cannot build the peer; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLoad:
    """How many callers have a value of this size under way each, and for how long."""

    window: int
    size_bytes: int
    seconds: float
    warm_up_s: float = 1.0

    @property
    def options(self) -> list[str]:
        """The command line of the process that proposes."""
        values = {"window": self.window, "size": self.size_bytes, "seconds": self.seconds, "warm-up": self.warm_up_s}
        return [word for name, value in values.items() for word in (f"-{name}", str(value))]


def ready(peer: Name) -> list[str]:
    """The command that starts a process of this peer; builds it first if necessary. Errors: PeerUnavailableError."""
    if peer == "rqlite":
        _binary(peer, RQLITED)
    return _python(peer) if peer == "pysyncobj" else [str(_binary(peer))]


def run_peer(peer: Name, load: PeerLoad, folder: Path) -> dict[str, float]:
    """Run it once, with its files in a new folder below ``folder``. Errors: LocalQuorumError, PeerUnavailableError."""
    command = ready(peer)
    with temporary_folder(f"pykraft-{peer}-", folder) as home, Children() as children:
        layout = {"etcd": _etcd, "rqlite": _rqlite}.get(peer, _nodes)
        serving, proposing = layout(command, home, load)
        processes = [children.start(name, words, home / f"{name}.log") for name, words in serving.items()]
        speaker = children.start(f"{peer} 1", proposing, home / "proposer.log")
        processes.append(speaker)
        before = _usage_at(processes, speaker, "begin", EXTRA_S + load.warm_up_s)
        after = _usage_at(processes, speaker, "end", EXTRA_S + load.seconds)
        told = _events(speaker)["end"]
    used_s = sum(after[child.name].cpu_s - before[child.name].cpu_s for child in processes)
    return {
        "rate": told["operations"] / told["seconds"],
        "p50_ms": told["p50_ms"],
        "p99_ms": told["p99_ms"],
        "cpu_s": used_s,
        "cpu_us": used_s / told["operations"] * 1e6,
        "memory_mib": max(usage.memory_mib for usage in after.values()),
        "refused": told["failed"],
    }


def _nodes(command: list[str], home: Path, load: PeerLoad) -> tuple[dict[str, list[str]], list[str]]:
    """The commands of the nodes that only serve, by name, and of node 1."""
    peers = ",".join(f"{HOST}:{port}" for port in free_ports(NODES))
    commands = {}
    for node_id in range(1, NODES + 1):
        place = home / f"n{node_id}"
        place.mkdir()
        commands[f"node-{node_id}"] = [*command, "-id", str(node_id), "-peers", peers, "-folder", str(place)]
    first = commands.pop("node-1")
    return commands, [*first, *load.options]


def _etcd(command: list[str], home: Path, load: PeerLoad) -> tuple[dict[str, list[str]], list[str]]:
    to_peers, to_clients = ([f"http://{HOST}:{port}" for port in free_ports(NODES)] for _ in range(2))
    cluster = ",".join(f"n{index}={url}" for index, url in enumerate(to_peers))
    commands = {}
    for index, (to_peer, to_client) in enumerate(zip(to_peers, to_clients, strict=True)):
        options = {
            "name": f"n{index}",
            "data-dir": str(home / f"n{index}"),
            "listen-peer-urls": to_peer,
            "initial-advertise-peer-urls": to_peer,
            "listen-client-urls": to_client,
            "advertise-client-urls": to_client,
            "initial-cluster": cluster,
            "log-level": "error",
            "quota-backend-bytes": str(8 * 2**30),
        }
        commands[f"server-{index}"] = [*command, *_words(options)]
    return commands, [*command, "-peers", ",".join(to_clients), *load.options]


def _rqlite(command: list[str], home: Path, load: PeerLoad) -> tuple[dict[str, list[str]], list[str]]:
    server = str(_binary("rqlite", RQLITED))
    to_peers, to_clients = ([f"{HOST}:{port}" for port in free_ports(NODES)] for _ in range(2))
    commands = {}
    for index, (to_peer, to_client) in enumerate(zip(to_peers, to_clients, strict=True)):
        options = {
            "node-id": f"n{index}",
            "http-addr": to_client,
            "raft-addr": to_peer,
            "bootstrap-expect": str(NODES),
            "join": ",".join(to_peers),
        }
        commands[f"server-{index}"] = [server, *_words(options), str(home / f"n{index}")]
    return commands, [*command, "-peers", ",".join(to_clients), *load.options]


def _words(options: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _usage_at(processes: list[Child], speaker: Child, event: str, timeout_s: float) -> Mapping[str, Usage]:
    """What all processes have used when this line comes. Errors: LocalQuorumError with the last words of the peer."""
    try:
        wait_until(lambda: event in _events(speaker), f"{speaker.name}: {event}", timeout_s=timeout_s, alive=processes)
    except LocalQuorumError as error:
        said = speaker.log().strip().splitlines()[-1:]
        raise LocalQuorumError(": ".join([str(error), *said])) from error
    return {child.name: usage_of(child.pid, child.name) for child in processes}


def _events(speaker: Child) -> dict[str, dict[str, Any]]:
    """The lines that it has finished, by the name of the event; peers also print other things."""
    lines = speaker.log().split("\n")[:-1]
    events = [json.loads(line) for line in lines if line.startswith('{"event"')]
    return {event["event"]: event for event in events}


def go() -> str:
    """Where Go is. Errors: PeerUnavailableError."""
    found = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), *GO_PLACES]))
    if found is None:
        raise PeerUnavailableError("there is no go on the PATH; on Debian: apt-get install golang (1.24 or later)")
    return found


def _binary(peer: str, package: str = ".") -> Path:
    """A program of this package, with the versions of the peer's folder. Errors: PeerUnavailableError."""
    sources = sorted([*(SOURCES / peer).iterdir(), *(SOURCES / "load").iterdir()])
    program = peer if package == "." else package.rpartition("/")[2]
    found = cache_folder() / f"peer-{program}-{_hash(sources)}"
    if not found.exists():
        command = [go(), "build", "-o"]
        found.parent.mkdir(parents=True, exist_ok=True)
        unfinished = found.with_name(f"{found.name}.{os.getpid()}")
        try:
            _build(peer, [*command, str(unfinished), package], SOURCES / peer)
            unfinished.rename(found)
        finally:
            unfinished.unlink(missing_ok=True)
    return found


def _python(peer: str) -> list[str]:
    requirements = SOURCES / peer / "requirements.txt"
    home = cache_folder() / f"peer-{peer}-{_hash([requirements])}-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        _build(peer, [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)], SOURCES / peer)
        (home / "ready").touch()
    return [str(python), str(SOURCES / peer / "node.py")]


def _build(peer: str, command: list[str], folder: Path) -> None:
    """Errors: PeerUnavailableError with the last line that the builder printed."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"{peer} was not built within {BUILD_TIMEOUT_S:g} s") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise PeerUnavailableError(f"{peer} cannot be built: {words[0]}")


def _hash(files: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:12]


def main() -> None:
    """Run one peer once, and print one line of JSON."""
    import argparse
    import tempfile

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--window", type=int, default=64, help="callers with one value under way each")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    chosen = parser.parse_args()
    load = PeerLoad(window=chosen.window, size_bytes=chosen.size, seconds=chosen.seconds)
    try:
        print(json.dumps({"peer": chosen.peer, "window": chosen.window, **run_peer(chosen.peer, load, chosen.dir)}))
    except (LocalQuorumError, UsageError) as error:
        raise SystemExit(f"{chosen.peer}: {error}") from error


if __name__ == "__main__":
    main()

"""A secured quorum of processes under load: certificates that change, and strangers who only begin handshakes.

    python -m tests.processes.tls_rounds rotation [--rounds N]
    python -m tests.processes.tls_rounds flood [--half-open N] [--slow N] [--seconds S]

A round of the rotation has three steps, each taken up by SIGHUP: both authorities are trusted, the certificates are the
new one's, the former one is trusted no more. After each step a tool describes the quorum with the certificate of then,
and records are acknowledged. The flood opens connections from other addresses of the loopback network to all nodes, and
opens each again when it is closed: half-open ones send nothing, slow ones a ClientHello byte by byte. Exit status 0
when the leadership and every acknowledged record are as they were; figures are printed.
"""

import argparse
import asyncio
import resource
import signal
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, Final

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, QUICK
from pykraft.security.authority import Authority
from tests.processes.attack import peak_memory_mib
from tests.processes.commands import run, stop_under_load
from tests.security.credentials import HOSTS, authority, encrypted, properties, write

SECRET: Final = "the-word-that-nobody-may-see"  # noqa: S105 - a test's
TAKEN_UP: Final = "certificates were read again"
BYTE_S: Final = 0.5
AGAIN_S: Final = 0.2


def secured(children: Children, folder: Path, **others: Any) -> tuple[Cluster, str, Path]:
    """A quorum of three with one certificate, its addresses, and a tool's properties file."""
    values = properties(folder / "certificates")
    location = Path(values["ssl.keystore.location"])
    location.write_bytes(encrypted(location.read_bytes(), SECRET))
    (folder / "secrets.properties").write_text(f"word={SECRET}\n")
    values |= {
        "ssl.key.password": f"${{file:{folder}/secrets.properties:word}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    given = {**values, "listener.security.protocol.map": f"{LISTENER}:SSL"}
    cluster = Cluster(children, folder, properties={**QUICK, "pykraft.client.listeners": LISTENER, **given}, **others)
    client = {**values, "security.protocol": "SSL"}
    del client["ssl.client.auth"]
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
    return cluster, ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values()), file


def described(bootstrap: str, file: Path) -> str:
    """What a tool that connects anew hears of the leader."""
    done = run("quorum", "--bootstrap-controller", bootstrap, "--command-config", str(file), "describe", "--status")
    assert done.returncode == 0, done.stderr
    return done.stdout


class Rotation:
    """Rounds of new authorities, one after the other."""

    def __init__(self, cluster: Cluster, bootstrap: str, file: Path) -> None:
        self._cluster = cluster
        self._tool = bootstrap, file
        self._folder = file.parent / "certificates"
        self._authority = authority()

    def round(self) -> None:
        """One exchange of the authority and of all certificates."""
        before, after = self._authority.certificate_pem, Authority.create("the next CA")
        self._step("ca.pem", before + after.certificate_pem)
        self._step("node.pem", after.issue("node", HOSTS))
        self._step("ca.pem", after.certificate_pem)
        self._authority = after

    def _step(self, name: str, content: bytes) -> None:
        nodes = self._cluster.nodes.values()
        counts = {node.node_id: node.process.log().count(TAKEN_UP) for node in nodes}
        write(self._folder / f"{name}.new", content)
        (self._folder / f"{name}.new").replace(self._folder / name)
        for node in nodes:
            node.process.signal(signal.SIGHUP)
        wait_until(
            lambda: all(node.process.log().count(TAKEN_UP) >= counts[node.node_id] + 2 for node in nodes),
            f"{name} is taken up in both directions",
        )
        mark = self._cluster.journal.mark()
        described(*self._tool)
        self._cluster.journal.wait_for_acknowledged(50, since=mark)


def require_epoch(cluster: Cluster, epoch: int) -> None:
    """Nobody else has led, and no node refused a handshake of another."""
    assert cluster.journal.wait_for_leader(since=0).epoch == epoch
    assert {event.epoch for event in cluster.journal.acknowledgements()} == {epoch}


class Flood:
    """Connections that begin handshakes and do not go on, from as many addresses as you like."""

    def __init__(self, nodes: Sequence[PykraftNode]) -> None:
        self._ports = [node.port for node in nodes]
        self.counts: Counter[str] = Counter()
        self._closed = asyncio.Event()

    async def wait_until_closed(self, count: int) -> None:
        """Wait until so many connections were closed, by whoever."""
        while self.counts["closed"] < count:
            await self._closed.wait()
            self._closed.clear()

    async def run(self, half_open: int, slow: int) -> None:
        """Until it is cancelled."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        hello = client_hello()
        async with asyncio.TaskGroup() as group:
            for number in range(half_open + slow):
                group.create_task(self._attack(number, b"" if number < half_open else hello))

    async def _attack(self, number: int, hello: bytes) -> None:
        port, address = self._ports[number % len(self._ports)], f"127.{9 + number // 250 % 200}.{number % 250}.1"
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(HOST, port, local_addr=(address, 0))
                self.counts["opened"] += 1
                try:
                    await _trickle(reader, writer, hello)
                finally:
                    self.counts["closed"] += 1
                    self._closed.set()
                    writer.transport.abort()
            await _pause(AGAIN_S)


async def _pause(seconds: float) -> None:
    """The pace of the attack; nothing waits for it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: bytes) -> None:
    """Send these bytes slowly, and then nothing until the other end closes."""
    for byte in hello:
        writer.write(bytes((byte,)))
        with suppress(TimeoutError):
            async with asyncio.timeout(BYTE_S):
                await reader.read(1)
            return
    await reader.read()


def client_hello() -> bytes:
    """The first record of a client."""
    outgoing = ssl.MemoryBIO()
    begun = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        begun.do_handshake()
    return outgoing.read()


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def rotate(children: Children, folder: Path, rounds: int) -> None:
    """All rounds, then the checks."""
    cluster, bootstrap, file = secured(children, folder)
    epoch = cluster.start().epoch
    rotation = Rotation(cluster, bootstrap, file)
    for _ in range(rounds):
        rotation.round()
    require_epoch(cluster, epoch)
    logs = "".join(node.process.log() for node in cluster.nodes.values())
    assert "handshake" not in logs, "a connection was refused"
    print(f"{rounds} rounds, {len(cluster.journal.acknowledgements())} acknowledgements in epoch {epoch}")
    stop_under_load(cluster)


def flood(children: Children, folder: Path, half_open: int, slow: int, seconds: float) -> None:
    """Flood all nodes, and print what it did to them."""
    cluster, bootstrap, file = secured(children, folder)
    epoch = cluster.start().epoch
    pids = {node.node_id: node.process.pid for node in cluster.nodes.values()}
    attack = Flood(list(cluster.nodes.values()))

    def report(what: str, mark: int, lasted_s: float) -> None:
        said = cluster.journal.acknowledgements(since=mark)
        times = sorted(each.latency_ms for each in said)
        rate = sum(each.count for each in said) / lasted_s
        opened = ", ".join(str(descriptors(pid)) for pid in pids.values())
        memory = ", ".join(f"{peak_memory_mib(pid):.0f}" for pid in pids.values())
        print(
            f"{what}: {rate:.0f} records/s, latency p50 {times[len(times) // 2]:.1f} ms, "
            f"p99 {times[len(times) * 99 // 100]:.1f} ms; descriptors {opened}; peak MiB {memory}"
        )

    async def attacked() -> None:
        running = asyncio.create_task(attack.run(half_open, slow))
        await _pause(seconds)
        print(dict(attack.counts))
        await asyncio.to_thread(described, bootstrap, file)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    for what in ("before", "flooded", "after"):
        mark, begun_s = cluster.journal.mark(), time.monotonic()
        if what == "flooded":
            asyncio.run(attacked())
        else:
            Event().wait(seconds)
        report(what, mark, time.monotonic() - begun_s)
    require_epoch(cluster, epoch)
    stop_under_load(cluster)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="A secured quorum under load, rotated or flooded.")
    parser.add_argument("what", choices=("rotation", "flood"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--half-open", type=int, default=10_000)
    parser.add_argument("--slow", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        try:
            if given.what == "rotation":
                rotate(children, Path(folder), given.rounds)
            else:
                flood(children, Path(folder), given.half_open, given.slow, given.seconds)
        except BaseException:
            print(children.log_ends(), file=sys.stderr)
            raise


if __name__ == "__main__":
    main(sys.argv[1:])

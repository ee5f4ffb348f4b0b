"""Sends every RPC, with edge cases of every string, number and array, to a live node and checks that the node survives.

The schema tables generate the requests, so a new field is covered at once. One seed gives one sequence. Each request
starts as one for our own partition; then one field takes an edge value, and in later rounds several do. No answer is
judged to be right or wrong.

    python -m tests.processes.rpc_edges --seconds 600 --loop asyncio --seed 7

Oracles: the process runs and answers ApiVersions; its memory stays below a bound; and its event loop is never blocked
for longer than a quarter of the fetch timeout, not counting the time that this process itself was held up.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final

from lab.nodes.cluster import JournalKeeper, PykraftNode, Site
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.local.child import Children
from pykraft.local.voters import LISTENER, free_ports
from pykraft.protocol.api import encode_request
from pykraft.protocol.messages import APIS, ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.protocol.schema import Array, Body, Kind, Struct, fields_of, tagged_fields_of
from pykraft.types import Epoch, Offset
from tests.processes.wire import Wire, framed

FETCH_TIMEOUT_MS: Final = 2_000
MEMORY_KIB_MAX: Final = 400 * 1024
LAST_FRAME_S: Final = 0.02
"""How long an answer is waited for: some requests have to wait, and nobody needs theirs."""
NUMBERS: Final = {
    Kind.INT8: (-(2**7), -1, 0, 1, 2**7 - 1),
    Kind.INT16: (-(2**15), -1, 0, 1, 2**15 - 1),
    Kind.UINT16: (0, 1, 2**16 - 1),
    Kind.INT32: (-(2**31), -1, 0, 1, 2, 5, 2**31 - 2, 2**31 - 1),
    Kind.INT64: (-(2**63), -1, 0, 1, 2**31, 2**63 - 1),
}
NUMBERS_OF_OURS: Final = {
    "port": 1,
    "leader_id": 2,
    "replica_id": 2,
    "voter_id": 1,
    "leader_epoch": 3,
    "replica_epoch": 3,
    "current_leader_epoch": 1,
    "acks": -1,
}
"""Another voter leads, or would like to, in an epoch that a node has not seen at its start."""
TEXTS: Final = (
    "",
    "\0",
    "127.0.0.1\0",
    "::ffff:127.0.0.1\0x",
    "localhost",
    "a..b",
    "x" * 64,
    "x" * 255,
    "x" * 32_767,
    "\U0001f600" * 300,
    "\x1b[2J\n",
    "%s{}",
    "kraft.version",
)
_HELD_UP: Final = re.compile(r"the event loop was blocked for (\d+) ms")
Place = tuple[str | int, ...]
BATCH: Final = encode_batch([b"value"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0).data


def plain(kind: Kind | Struct | Array, version: int, name: str = "") -> Any:
    """A value of our own partition, where it names one, with one element in each array."""
    match kind:
        case Struct():
            fields = [*fields_of(kind, version), *tagged_fields_of(kind, version)]
            body = {
                one.name: None
                if one.may_be_null(version) and isinstance(one.kind, Kind)
                else plain(one.kind, version, one.name)
                for one in fields
            }
            return {**body, "name": LISTENER} if "host" in body and "name" in body else body
        case Array():
            return [plain(kind.of, version)]
        case Kind.STRING:
            return TEST_TOPIC_NAME if name in ("topic_name", "topic", "name") else "127.0.0.1"
        case Kind.UUID:
            return TEST_TOPIC_ID if name == "topic_id" else bytes(15) + b"\7"
        case Kind.BOOL:
            return False
        case Kind.RECORDS | Kind.BYTES:
            return BATCH
        case _:
            return NUMBERS_OF_OURS.get(name, 0)


def places(kind: Kind | Struct | Array, version: int, path: Place = ()) -> Iterator[tuple[Place, Kind | Array]]:
    """Every string, number and array of a body."""
    match kind:
        case Struct():
            for one in (*fields_of(kind, version), *tagged_fields_of(kind, version)):
                yield from places(one.kind, version, (*path, one.name))
        case Array():
            yield path, kind
            yield from places(kind.of, version, (*path, 0))
        case _:
            yield path, kind


def edges(kind: Kind | Array, value: Any) -> tuple[Any, ...]:
    """What a place may be, at its edges."""
    if isinstance(kind, Array):
        counts = (0, 2, kind.count_max, kind.count_max + 1, 3_000)
        return tuple(value * count for count in counts)
    if kind is Kind.BOOL:
        return (True,)
    if kind is Kind.UUID:
        return (bytes(16), b"\xff" * 16)
    if kind in (Kind.RECORDS, Kind.BYTES):
        return (*(BATCH[:size] for size in (0, 1, 12, 61, -1)), BATCH * 2, bytes(61), b"\xff" * 100)
    return TEXTS if kind is Kind.STRING else NUMBERS[kind]


def put(body: Body, place: Place, kind: Kind | Array, at: int) -> None:
    """Give a place the edge with this number, round and round; nothing happens where an array on the way is empty."""
    holder: Any = body
    for step in place[:-1]:
        if not holder[step]:
            return
        holder = holder[step]
    found = edges(kind, holder[place[-1]])
    holder[place[-1]] = found[at % len(found)]


def requests(source: Random) -> Iterator[tuple[ApiKey, int, bytes]]:
    """Every edge of every place once, in the newest versions first, then several drawn ones at a time without end."""
    singles = [
        (version != api.request.versions.max, source.random(), ApiKey(key), version, place, kind, at)
        for key, api in APIS.items()
        for version in range(api.request.versions.min, api.request.versions.max + 1)
        for place, kind in places(api.request.body, version)
        for at in range(len(edges(kind, [])))
    ]
    for _, _, key, version, place, kind, at in sorted(singles, key=lambda each: each[:2]):
        body = plain(APIS[key].request.body, version)
        put(body, place, kind, at)
        yield _encoded(key, version, body)
    while True:
        key = source.choice(list(ApiKey))
        versions = APIS[key].request.versions
        version = source.randint(versions.min, versions.max)
        body = plain(APIS[key].request.body, version)
        found = list(places(APIS[key].request.body, version))
        for place, kind in source.sample(found, min(len(found), source.randint(1, 4))):
            put(body, place, kind, source.randrange(100))
        yield _encoded(key, version, body)


def _encoded(key: ApiKey, version: int, body: Body) -> tuple[ApiKey, int, bytes]:
    parts = encode_request(key, version, 7, "edges", body)
    return key, version, b"".join(bytes(part) for part in parts)


class OwnLag:
    """How long this machine let a thread wait that wanted to run every few milliseconds."""

    def __init__(self) -> None:
        self._ended = Event()
        self._most_ms = 0.0
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        due_s = time.monotonic() + 0.01
        while not self._ended.wait(0.01):
            self._most_ms = max(self._most_ms, (time.monotonic() - due_s) * 1_000)
            due_s = time.monotonic() + 0.01

    def end_ms(self) -> float:
        """The longest wait."""
        self._ended.set()
        self._thread.join()
        return self._most_ms


def fuzz(folder: Path, *, loop: str, voters: int, seconds: float, seed: int) -> int:
    """Returns how many requests were sent. Errors: AssertionError, with the request that came last.

    An only voter leads, and serves; one of three, whose others are not there, hears of leaders, and dials them.
    """
    sent = 0
    ports = dict(enumerate(free_ports(voters), start=1))
    port = ports[1]
    journal = JournalKeeper(folder / "journal.jsonl")
    with Children() as children:
        node = PykraftNode(
            children,
            journal,
            folder / "n1",
            node_id=1,
            ports=ports,
            throughput=200,
            properties={
                "controller.quorum.fetch.timeout.ms": str(FETCH_TIMEOUT_MS),
                "pykraft.client.listeners": LISTENER,
            },
            site=Site(port=port, published_port=port, options=("--loop", loop)),
        )
        node.start()
        journal.wait_for_started(1, since=0, process=node.process)
        last, stream, lag = b"", requests(Random(seed)), OwnLag()
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            key, version, last = next(stream)
            try:
                _send(node.port, last)
            except ConnectionRefusedError:
                _check(node, f"{key.name} v{version} {last.hex()[:400]}")
                raise
            sent += 1
            if sent % 100 == 0:
                _check(node, f"{key.name} v{version} {last.hex()[:400]}")
        _check(node, last.hex()[:400])
        own_lag_ms = lag.end_ms()
        held_up_ms = max(map(int, _HELD_UP.findall(node.process.log())), default=0)
        assert held_up_ms <= FETCH_TIMEOUT_MS / 4 + own_lag_ms, f"the loop was held up for {held_up_ms} ms"
        assert "Traceback" not in node.process.log()
    return sent


def _send(port: int, message: bytes) -> None:
    with Wire(port) as wire:
        wire.wait_at_most(LAST_FRAME_S)
        try:
            wire.send(framed(message))
            wire.receive()
        except (TimeoutError, ConnectionError):
            pass  # it waits for something, or was closed


def _check(node: PykraftNode, last: str) -> None:
    assert node.process.status is None, f"the node ended; the last request was {last}\n{node.process.log()[-2_000:]}"
    with Wire(node.port) as wire:
        assert wire.ask(ApiKey.API_VERSIONS, 0, {})["error_code"] == 0
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    memory_kib = int(status.partition("VmRSS:")[2].split()[0])
    assert memory_kib < MEMORY_KIB_MAX, f"it takes {memory_kib} KiB; the last request was {last}"


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--voters", type=int, default=3)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sent = fuzz(Path(folder), loop=chosen.loop, voters=chosen.voters, seconds=chosen.seconds, seed=chosen.seed)
    print(f"{sent} requests, and the node lives")


if __name__ == "__main__":
    main()

"""Lies told to a secured quorum: changed TLS records and SASL messages, before and after a name is proven, and floods.

    python -m tests.processes.secured_fuzz [--seconds 600] [--seed N]

Three nodes under load have listeners with SASL_SSL for PLAIN, SCRAM and OAUTHBEARER. Liars connect from many addresses,
while every second somebody new proves a name and asks the leader who leads. Exit status 0 when the leader and its epoch
stay, each of these seconds has acknowledged records, and memory and descriptors are bounded; figures are printed.
"""

import argparse
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from threading import Event
from typing import Final, TypeAlias

from cryptography.hazmat.bindings.openssl.binding import Binding

from lab.nodes.cluster import Cluster
from pykraft.errors import AuthenticationError, PykraftError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST
from pykraft.protocol.api import decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.sasl import SaslCredentials
from pykraft.security.settings import Security
from pykraft.server.sasl_server import AGAIN_S_MIN
from tests.processes.attack import describe_quorum, memory_mib, peak_memory_mib
from tests.processes.commands import stop_under_load
from tests.processes.test_sasl_quorum import authenticated
from tests.processes.tls_rounds import client_hello, descriptors
from tests.processes.wire import framed, request
from tests.security.key_updates import Records
from tests.security.proofs import jaas, proofs

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
LIARS: Final = 16
PATIENCE_S: Final = 0.5
"""How long a liar waits for an answer."""
HALF_OPEN: Final = 20
"""Connections that each liar leaves as they are, the newest ones."""
KEY_UPDATES: Final = 20_000
"""They would cost a node 0.8 s."""
ENOUGH_S: Final = 30.0
FLOOD: Final = 200
"""Requests that are sent at once."""
OF_NODES: Final = 4
"""Connections that nodes may have opened to each other meanwhile."""
MEMORY_MIB_MAX: Final = 160.0
CHECK_S: Final = 1.0
SIZES: Final = (-(2**31), -1, 0, 1, 16_384, 16_385, 65_536, 2**31 - 1)
"""What a frame may say that it has; one before authentication has at most 16 KiB."""
Change: TypeAlias = Callable[[bytes], bytes]


class Talk:
    """A connection over TLS that sends and reads frames; `change` has the last word on what leaves."""

    def __init__(self, connection: socket.socket, tls: ssl.SSLContext) -> None:
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = tls.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.change: Change = bytes

    def shake_hands(self) -> None:
        self._until_done(self.tls.do_handshake)

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self._flush()

    def receive(self) -> bytes:
        """The next frame without its size. Errors: OSError."""
        (size_bytes,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size_bytes)

    def ask(self, key: ApiKey, version: int, body: Body, change: Change = bytes) -> Body:
        """The answer to a request. Errors: OSError, ProtocolError."""
        self.send(framed(change(request(key, version, body))))
        return decode_response(key, version, self.receive())[1]

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            piece = self._until_done(partial(self.tls.read, size_bytes - len(data)))
            if not piece:
                raise ConnectionError("the node closed the connection")
            data += piece
        return bytes(data)

    def _until_done(self, step: Callable[[], bytes | None]) -> bytes:
        while True:
            try:
                found = step()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._connection.recv(65_536)
                if not data:
                    raise ConnectionError("the node closed the connection") from None
                self._incoming.write(data)
            else:
                self._flush()
                return found or b""

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._connection.sendall(self.change(data))


def prove(talk: Talk, who: SaslCredentials, *, message: Change = bytes, frame: Change = bytes) -> None:
    """Authenticate, with changes in the mechanism's messages or in the requests. Errors: OSError, PykraftError."""
    exchange = who.begin()
    talk.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": who.mechanism}, frame)
    sent: bytes | None = exchange.begin()
    while sent is not None:
        told = talk.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": message(sent)}, frame)
        if told["error_code"]:
            raise AuthenticationError(str(told["error_message"]))
        sent = exchange.answer(told["auth_bytes"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A quorum and who may come."""

    cluster: Cluster
    tls: Sequence[ssl.SSLContext]
    known: Sequence[SaslCredentials]
    unknown: Sequence[SaslCredentials]

    @staticmethod
    def of(children: Children, folder: Path, **given: str) -> "Scene":
        values: dict[str, str] = {}
        for mechanism in MECHANISMS:
            values |= proofs(folder / "proofs", mechanism)
        scram = MECHANISMS[1]
        values |= {"sasl.enabled.mechanisms": ",".join(MECHANISMS), "sasl.mechanism.controller.protocol": scram}
        values |= given
        cluster, _, client = authenticated(children, folder, "SASL_SSL", scram, throughput=200, **values)
        trusted = client["ssl.truststore.location"]
        tls = [ssl.create_default_context(cafile=trusted) for _ in range(2)]
        tls[0].maximum_version = ssl.TLSVersion.TLSv1_2

        def credentials(mechanism: str, **options: str) -> SaslCredentials:
            key = "sasl.oauthbearer.token.endpoint.url"
            own = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, **options), key: values[key]}
            return SaslCredentials(Security.of_client({"security.protocol": "SASL_SSL", **own}))

        known = [credentials(mechanism) for mechanism in MECHANISMS]
        unknown = [credentials(mechanism, password="a guess") for mechanism in MECHANISMS[:2]]  # noqa: S106 - a test's
        return Scene(cluster=cluster, tls=tls, known=known, unknown=unknown)

    def leadership(self, port: int, who: SaslCredentials) -> tuple[int, int]:
        """What a node says of leader and epoch to somebody who connects now."""
        with socket.create_connection((HOST, port), 60.0) as connection:
            talk = Talk(connection, self.tls[-1])
            talk.shake_hands()
            prove(talk, who)
            talk.send(describe_quorum())
            [topic] = decode_response(ApiKey.DESCRIBE_QUORUM, 0, talk.receive())[1]["topics"]
        [partition] = topic["partitions"]
        return partition["leader_id"], partition["leader_epoch"]


class Liar:
    """Somebody who says something wrong on each connection, sooner or later."""

    def __init__(self, scene: Scene, number: int, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._scene = scene
        self._number = number
        self._rng = Random(f"{seed} {number}")
        self._ports = [node.port for node in scene.cluster.nodes.values()]
        self._hello = client_hello()
        self._left_open: deque[socket.socket] = deque()

    def run(self, ended: Event) -> None:
        """Until it has ended. What the node says to it does not matter."""
        kinds = (
            self._greeting,
            self._handshake,
            self._renegotiation,
            self._key_updates,
            self._records,
            self._messages,
            self._requests,
            self._sizes,
            self._guess,
            self._flood,
            self._again,
            self._silence,
        )
        first = self._number % len(kinds)  # so that each is tried at once, by somebody
        for kind in cycle(kinds[first:] + kinds[:first]):
            if ended.is_set():
                break
            self.counts[kind.__name__.removeprefix("_")] += 1
            with suppress(OSError, PykraftError), self._connected() as connection:
                kind(connection)
        while self._left_open:
            self._left_open.popleft().close()

    def _connected(self) -> socket.socket:
        here = f"127.{20 + self._number}.{self._rng.randrange(250)}.1"
        there = (HOST, self._rng.choice(self._ports))
        return socket.create_connection(there, PATIENCE_S, source_address=(here, 0))

    def _secured(self, connection: socket.socket) -> Talk:
        talk = Talk(connection, self._rng.choice(self._scene.tls))
        talk.shake_hands()
        return talk

    def _known(self) -> SaslCredentials:
        return self._rng.choice(self._scene.known)

    def _changed(self, data: bytes) -> bytes:
        """The same with a few places written over, cut out, put in, repeated, or with its end cut off."""
        rng, content = self._rng, bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(content) + 1)
            until = at + rng.randrange(1, 40)
            match rng.randrange(5):
                case 0:
                    content[at : at + 1] = rng.randbytes(1)
                case 1:
                    del content[at:until]
                case 2:
                    content[at:at] = rng.randbytes(until - at)
                case 3:
                    content[at:at] = content[at:until]
                case _:
                    del content[at:]
        return bytes(content)

    def _sometimes(self, data: bytes) -> bytes:
        return self._changed(data) if self._rng.random() < 0.5 else data

    def _greeting(self, connection: socket.socket) -> None:
        is_made_up = self._rng.random() < 0.2
        data = self._rng.randbytes(self._rng.randrange(70_000)) if is_made_up else self._changed(self._hello)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    def _handshake(self, connection: socket.socket) -> None:
        talk = Talk(connection, self._rng.choice(self._scene.tls))
        talk.change = self._sometimes
        talk.shake_hands()

    def _renegotiation(self, connection: socket.socket) -> None:
        """Ask for another handshake as often as the node grants it."""
        lib, ffi = Binding().lib, Binding().ffi
        connection.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, int(PATIENCE_S * 1e6)))
        context = ffi.gc(lib.SSL_CTX_new(lib.TLS_method()), lib.SSL_CTX_free)
        lib.SSL_CTX_set_max_proto_version(context, lib.TLS1_2_VERSION)
        tls = ffi.gc(lib.SSL_new(context), lib.SSL_free)
        lib.SSL_set_fd(tls, connection.fileno())
        lib.SSL_set_connect_state(tls)
        if lib.SSL_do_handshake(tls) != 1:
            return
        self.counts["asked for renegotiation"] += 1
        while lib.SSL_renegotiate(tls) == 1 and lib.SSL_do_handshake(tls) == 1:
            self.counts["renegotiated"] += 1

    def _key_updates(self, connection: socket.socket) -> None:
        """Ask for new keys until the node has had enough."""
        with tempfile.NamedTemporaryFile() as key_log:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls.check_hostname, tls.verify_mode, tls.keylog_filename = False, ssl.CERT_NONE, key_log.name
            talk = Talk(connection, tls)
            talk.shake_hands()
            records = Records(talk.tls, Path(key_log.name))
        self.counts["asked for keys"] += 1
        connection.settimeout(ENOUGH_S)
        try:
            connection.sendall(b"".join(records.key_update() for _ in range(KEY_UPDATES)))
            while connection.recv(65_536):
                pass
        except TimeoutError:
            self.counts["got all keys"] += 1

    def _records(self, connection: socket.socket) -> None:
        talk = self._secured(connection)
        talk.change = self._sometimes
        prove(talk, self._known())
        talk.send(describe_quorum())
        talk.receive()

    def _messages(self, connection: socket.socket) -> None:
        prove(self._secured(connection), self._known(), message=self._sometimes)

    def _requests(self, connection: socket.socket) -> None:
        prove(self._secured(connection), self._known(), frame=self._sometimes)

    def _sizes(self, connection: socket.socket) -> None:
        talk, size_bytes = self._secured(connection), self._rng.choice(SIZES)
        talk.send(struct.pack(">i", size_bytes) + bytes(max(0, min(size_bytes, 65_536))))
        talk.receive()

    def _guess(self, connection: socket.socket) -> None:
        prove(self._secured(connection), self._rng.choice(self._scene.unknown))

    def _flood(self, connection: socket.socket) -> None:
        """Many requests at once, before or after a name is proven; the node closes when it has had enough."""
        talk, who = self._secured(connection), self._known()
        if self._rng.random() < 0.5:
            prove(talk, who)
        begin = request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": who.mechanism})
        guess = request(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": self._rng.randbytes(100)})
        talk.send(framed(self._rng.choice((begin, guess, request(ApiKey.API_VERSIONS, 0, {})))) * FLOOD)
        for _ in range(FLOOD):
            talk.receive()

    def _again(self, connection: socket.socket) -> None:
        """Prove a name, and again, this time with changes, as soon as that is allowed."""
        talk, who = self._secured(connection), self._known()
        prove(talk, who)
        connection.settimeout(AGAIN_S_MIN + 0.1)
        with suppress(TimeoutError):  # nothing was asked
            talk.receive()
        connection.settimeout(PATIENCE_S)
        self.counts["second proofs"] += 1
        prove(talk, self._rng.choice((who, self._known())), message=self._sometimes, frame=self._sometimes)

    def _silence(self, connection: socket.socket) -> None:
        connection.sendall(self._hello[: self._rng.randrange(100)])
        self._left_open.append(connection.dup())
        if len(self._left_open) > HALF_OPEN:
            self._left_open.popleft().close()


def fuzz(children: Children, folder: Path, *, seconds: float, seed: int, **given: str) -> str:
    """Returns figures. Errors: AssertionError for what should not be; ``given`` are properties of the nodes."""
    scene = Scene.of(children, folder, **given)
    cluster, people = scene.cluster, cycle(scene.known)
    begun = cluster.start()
    pids = {node_id: node.process.pid for node_id, node in cluster.nodes.items()}

    def check() -> None:
        mark = cluster.journal.mark()
        assert scene.leadership(cluster.nodes[begun.node].port, next(people)) == (begun.node, begun.epoch)
        cluster.journal.wait_for_acknowledged(1, since=mark)
        for node_id, node in cluster.nodes.items():
            assert node.process.status is None, f"node {node_id} has ended"
            assert peak_memory_mib(pids[node_id]) < MEMORY_MIB_MAX, f"node {node_id}"

    for _ in scene.known:
        check()
    before = {node_id: (memory_mib(pid), descriptors(pid)) for node_id, pid in pids.items()}
    mark, ended, liars = cluster.journal.mark(), Event(), [Liar(scene, number, seed) for number in range(LIARS)]
    with ThreadPoolExecutor(LIARS) as pool:
        lies = [pool.submit(liar.run, ended) for liar in liars]
        try:
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                check()
                ended.wait(CHECK_S)
        finally:
            ended.set()
        said = cluster.journal.acknowledgements(since=mark)
    for lie in lies:
        lie.result()  # no liar was wrong about itself
    for node_id, pid in pids.items():
        wait_until(
            lambda pid=pid, node_id=node_id: descriptors(pid) <= before[node_id][1] + OF_NODES,  # type: ignore[misc]
            f"node {node_id} to have no more descriptors than before",
        )
    check()
    assert {event.epoch for event in cluster.journal.acknowledgements()} == {begun.epoch}
    counts = sum((liar.counts for liar in liars), Counter[str]())
    assert counts["asked for renegotiation"] > counts["renegotiated"] == 0
    assert counts["asked for keys"] > counts["got all keys"] == 0
    memory = "; ".join(
        f"node {node_id} {before[node_id][0]:.0f}, {memory_mib(pid):.0f} and {peak_memory_mib(pid):.0f} MiB"
        for node_id, pid in pids.items()
    )
    stop_under_load(cluster)
    assert "Traceback" not in "".join(node.process.log() for node in cluster.nodes.values())
    longest_ms = max(after.wall_ms - earlier.wall_ms for earlier, after in pairwise(said))
    refused = sum(node.process.log().count(" handshake on ") for node in cluster.nodes.values())
    return (
        f"{dict(counts)}; node {begun.node} led epoch {begun.epoch} all the time; {len(said)} acknowledgements, the "
        f"longest time between two {longest_ms} ms; memory before, after and at most: {memory}; {refused} lines of "
        "handshakes in the logs"
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Lies told to a secured quorum.")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        try:
            kafkas = {"controller.quorum.fetch.timeout.ms": "2000"}
            print(fuzz(children, Path(folder), seconds=chosen.seconds, seed=chosen.seed, **kafkas))
        except BaseException:
            print(children.log_ends(), file=sys.stderr)
            raise


if __name__ == "__main__":
    main(sys.argv[1:])

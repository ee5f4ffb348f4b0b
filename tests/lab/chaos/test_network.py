"""Proxies carry the traffic of nodes; their links are slow, cut in one direction, or reset within a frame."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from lab.chaos.network import OUTSIDER, ProxyNetwork, Wire
from pykraft.local.voters import HOST, free_ports

TIMEOUT_S = 20.0


def words_of(name: bytes, rest: bytes = b"") -> bytes:
    """The begin of a request by this client."""
    head = struct.pack(">hhih", 18, 3, 7, len(name)) + name + rest
    return struct.pack(">i", len(head)) + head


class EchoNode:
    """Listens as node 1 does, and says everything again that it is told."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def fronts() -> dict[int, tuple[int, int]]:
    """The ports of a proxy in front of node 1, and of one in front of node 2, which is down."""
    ports = free_ports(4)
    return {1: (ports[0], ports[1]), 2: (ports[2], ports[3])}


@pytest.fixture
def network(fronts: dict[int, tuple[int, int]]) -> Iterator[ProxyNetwork]:
    node = EchoNode(fronts[1][1])
    with closing(ProxyNetwork(fronts, Random(1))) as network:
        yield network
    node.close()


def dial(fronts: dict[int, tuple[int, int]], node_id: int = 1) -> socket.socket:
    return socket.create_connection((HOST, fronts[node_id][0]), TIMEOUT_S)


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, "the connection ended"
        data += piece
    return data


def test_bytes_pass_both_ways(network: ProxyNetwork, fronts: dict[int, tuple[int, int]]) -> None:
    data = words_of(b"raft-client-2", Random(2).randbytes(300_000))
    with dial(fronts) as connection:
        threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
        assert exactly(connection, len(data)) == data


def test_a_node_that_is_down_resets_its_clients(network: ProxyNetwork, fronts: dict[int, tuple[int, int]]) -> None:
    def speak() -> None:
        with dial(fronts, 2) as connection:
            connection.recv(1)

    with pytest.raises(ConnectionResetError):
        speak()


@pytest.mark.parametrize("pair", [(2, 1), (1, 2)])
def test_a_wire_that_is_cut_holds_back_one_direction(
    network: ProxyNetwork, fronts: dict[int, tuple[int, int]], pair: tuple[int, int]
) -> None:
    network.wire(*pair).is_cut = True
    data = words_of(b"raft-client-2")
    with dial(fronts) as connection:
        connection.sendall(data)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(TIMEOUT_S)
        network.heal()
        assert exactly(connection, len(data)) == data


def test_a_slow_wire_takes_its_time(network: ProxyNetwork, fronts: dict[int, tuple[int, int]]) -> None:
    wire = network.wire(2, 1)
    wire.bandwidth, wire.latency_s = 100_000.0, 0.1
    data = words_of(b"raft-client-2", bytes(40_000))
    with dial(fronts) as connection:
        begun_s = time.monotonic()
        connection.sendall(data)
        assert exactly(connection, len(data)) == data
        assert time.monotonic() - begun_s >= 0.5


def test_a_reset_comes_within_what_is_sent(network: ProxyNetwork, fronts: dict[int, tuple[int, int]]) -> None:
    network.wire(1, 2).reset_share = 1.0
    data = words_of(b"raft-client-2", bytes(1_000))
    with dial(fronts) as connection:
        connection.sendall(data)
        with pytest.raises(ConnectionResetError):
            exactly(connection, len(data))


@pytest.mark.parametrize("name", [b"pykraft-admin", b"", b"x" * 300])
def test_outsiders_pass_freely(network: ProxyNetwork, fronts: dict[int, tuple[int, int]], name: bytes) -> None:
    for wire in network.wires_of(1):
        wire.is_cut = True
    assert network.wire(OUTSIDER, 1) not in network.wires_of(1)
    data = words_of(name)
    with dial(fronts) as connection:
        connection.sendall(data)
        assert exactly(connection, len(data)) == data


def test_wires_of_a_node_are_those_to_and_from_all_others(network: ProxyNetwork) -> None:
    assert len(network.wires_of(1)) == 2
    assert network.wires_of(1) == [network.wire(1, 2), network.wire(2, 1)]


def test_a_healed_wire_is_as_new() -> None:
    wire = Wire(bandwidth=1.0, latency_s=2.0, is_cut=True, reset_share=1.0, free_at_s=9.0)
    wire.heal()
    assert wire == Wire()


def test_a_client_that_says_nothing_holds_nothing_up(fronts: dict[int, tuple[int, int]]) -> None:
    node = EchoNode(fronts[1][1])
    with closing(ProxyNetwork(fronts, Random(1))), dial(fronts), dial(fronts) as other:
        other.sendall(b"xx")
    node.close()

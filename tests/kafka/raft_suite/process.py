"""The Python process behind the shim: all clients of one JVM, each a `pykraft.host.Host` on a virtual disk.

    python -m tests.kafka.raft_suite.process SOCKET [--strict] [--bug NAME]

It connects to nobody: it listens at a Unix socket for one JVM after the other, and serves one at a time. A node that
fails fails the call of the test, with the error's class and text.
"""

import argparse
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from pykraft.errors import PykraftError
from pykraft.host import delivery
from pykraft.host.ports import ConnectionId
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.kafka.raft_suite.node import Node
from tests.kafka.raft_suite.setup import read_setup
from tests.kafka.raft_suite.wire import NONE, Call, Did, Link, Reader, Writer
from tests.sim.mutants import MUTANTS, planted


class Clients:
    """The clients of one JVM, by the number that the shim gave them."""

    def __init__(self, link: Link, *, is_strict: bool, is_simulation: bool) -> None:
        self._link = link
        self._is_strict = is_strict or is_simulation
        self._is_simulation = is_simulation
        self._nodes: dict[int, Node] = {}

    def serve(self) -> None:
        """Carry out calls until the JVM has gone."""
        while (reader := self._link.read()) is not None:
            try:
                self._link.write(self._carry_out(reader))
            except PykraftError as error:
                self._link.write(Writer(Did.FAILED).text(type(error).__name__).text(str(error)))
            except Exception as error:  # noqa: BLE001 - the test shows it
                traceback.print_exc()
                self._link.write(Writer(Did.FAILED).text(type(error).__name__).text(repr(error)))

    def _carry_out(self, reader: Reader) -> Writer:
        call, number, now_ms = Call(reader.byte()), reader.int32(), reader.int64()
        released = reader.many(reader.int32)
        done = Writer(Did.DONE)
        if call == Call.OPEN:
            setup = read_setup(reader, is_strict=self._is_strict, is_simulation=self._is_simulation)
            self._nodes[number] = node = Node(self._link, setup, now_ms)
            node.settle()
            node.write_status(done, is_poll=False)
            return done.int64(NONE)
        if number not in self._nodes:
            assert call == Call.CLOSE, "only what is gone is closed twice, or was never opened"
            return done
        node = self._nodes[number]
        if call in _AT_TIMES:
            node.at(now_ms)
        for listener in released:
            node.release(listener)
        if call == Call.CLOSE:
            node.end()
            del self._nodes[number]
            return done
        if call == Call.METRICS:
            node.write_metrics(done)
            return done
        result = _CALLS[call](node, reader)
        node.settle()
        node.write_status(done, is_poll=call == Call.POLL)
        return done.int64(result)


def _id(reader: Reader) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(reader.int64()), Epoch(reader.int32()))


def _poll(node: Node, reader: Reader) -> None:
    earliest = _id(reader)
    node.poll(None if earliest.offset == NONE else earliest)


def _request(node: Node, reader: Reader) -> None:
    node.request(reader.int32(), reader.text(), reader.blob())


def _response(node: Node, reader: Reader) -> None:
    node.response(ConnectionId(reader.int32()), reader.blob())


def _propose(node: Node, reader: Reader) -> int:
    return node.propose(Epoch(reader.int32()), reader.many(reader.blob))


def _upgrade(node: Node, reader: Reader) -> None:
    node.upgrade(Epoch(reader.int32()), reader.int32(), validate_only=reader.flag())


def _snapshot_append(node: Node, reader: Reader) -> None:
    node.snapshot_append(reader.int32(), reader.many(reader.blob))


_AT_TIMES: Final = frozenset({Call.POLL, Call.REQUEST, Call.RESPONSE, Call.METRICS, Call.RELEASE})
"""Calls of a poll, and look-ups. What a test asks in between finds the time of the last poll: nothing expires there."""
_CALLS: Final[dict[Call, Callable[[Node, Reader], int | None]]] = {
    Call.POLL: _poll,
    Call.REQUEST: _request,
    Call.RESPONSE: _response,
    Call.REGISTER: lambda node, reader: node.register(reader.int32()),
    Call.UNREGISTER: lambda node, reader: node.unregister(reader.int32()),
    Call.RELEASE: lambda node, reader: None,
    Call.PROPOSE: _propose,
    Call.SCHEDULE: lambda node, _: node.host.schedule_prepared(node.now),
    Call.RESIGN: lambda node, reader: node.resign(Epoch(reader.int32()), is_at_once=reader.flag()),
    Call.SHUTDOWN: lambda node, reader: node.shutdown(reader.int32()),
    Call.UPGRADE: _upgrade,
    Call.SNAPSHOT: lambda node, reader: node.snapshot(_id(reader)),
    Call.SNAPSHOT_APPEND: _snapshot_append,
    Call.SNAPSHOT_FREEZE: lambda node, reader: node.snapshot_freeze(reader.int32()),
    Call.SNAPSHOT_CLOSE: lambda node, reader: node.snapshot_close(reader.int32()),
}


def main(words: Sequence[str]) -> None:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.raft_suite.process")
    parser.add_argument("socket")
    parser.add_argument("--strict", action="store_true", help="no liberties")
    parser.add_argument("--simulation", action="store_true", help="no liberties, and polls may be left out")
    parser.add_argument("--bug", choices=sorted(MUTANTS), help="plant this bug of tests.sim.mutants")
    options = parser.parse_args(words)
    if not (options.strict or options.simulation):
        delivery.PIECE_SIZE_BYTES_MAX = 1  # type: ignore[misc] # each batch alone: see the liberties
    with ExitStack() as stack:
        if options.bug is not None:
            stack.enter_context(planted(MUTANTS[options.bug]))
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(options.socket)
        listening.listen()
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        while True:
            connection, _ = listening.accept()
            with connection:
                Clients(Link(connection), is_strict=options.strict, is_simulation=options.simulation).serve()


if __name__ == "__main__":
    main(sys.argv[1:])

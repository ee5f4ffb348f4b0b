"""Commands and results of wrong shape, drawn from a seed, through `execute`, Forward and the HTTP API: none may hurt.

Two quorums of three nodes run in this process. The first has a machine with a field of every kind: callers execute
commands with a field of another type on any node, and a stranger forwards such commands and torn bytes to the leader;
results that no serde can express come back from `apply`. The second is the key-value store behind its HTTP API.

    python -m tests.machine.typed_fuzz --inputs 1000000 --seed 7

Oracles: each input is refused with an error that says so; the logs of both quorums hold only commands of right shape,
which this program itself sent; every node executes a command after each `ROUND_INPUTS` inputs, and at the end all
replicas of a quorum have the same state.
"""

import argparse
import asyncio
import json
import logging
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from pykraft.client import LeaderAndEpoch
from pykraft.client.reader import Reader
from pykraft.config import RaftConfig
from pykraft.errors import CommandRejectedError, OutcomeUnknownError
from pykraft.kv.api import KeyValueApi
from pykraft.machine import Applied, Replicated, StateMachine
from pykraft.machine.records import CommandRecord, OpenRecord, decode_log_record, encode_command, encode_log_record
from pykraft.machine.records import pack_records as packed
from pykraft.machine.replicated import TIMEOUT_MS_MAX
from pykraft.protocol.api import decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.recipes import KeyValues, Put, Transaction
from tests.kv.asgi import Client
from tests.machine.counters import leader_of, nodes_of

ROUND_INPUTS: Final = 500
INVALID_REQUEST: Final = 42
NOT_LEADER: Final = 6
STEADY: Final = RaftConfig(election_timeout_ms=2_000, fetch_timeout_ms=4_000, append_linger_ms=0)
"""A busy machine shall not change leaders all the time; where one does change, strangers follow it."""
ANSWER_S_MAX: Final = 10.0
STRANGER_NONCE: Final = b"stranger".ljust(16)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Shade(Enum):
    RED = "dark red"


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass
class Dot:
    """A point of another class."""

    x: int


@dataclass
class Form:
    """A field of every kind; a good form is the default."""

    number: int = 1
    share: float = 0.5
    text: str = "t"
    yes: bool = True
    data: bytes = b"d"
    when: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    color: Color = Color.RED
    maybe: int | None = None
    names: list[str] = field(default_factory=list)
    pair: tuple[int, str] = (1, "a")
    counts: dict[str, int] = field(default_factory=dict)
    chosen: set[int] = field(default_factory=set)
    point: Point = field(default_factory=lambda: Point(1))
    points: list[Point] = field(default_factory=list)


@dataclass
class Answer:
    """Makes `apply` return one of `RESULTS`."""

    at: int


@dataclass
class Unknown:
    """None of the machine's commands."""

    number: int = 1


def _endless() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


def _deep(depth: int) -> list[Any]:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    return deep


RESULTS: Final[tuple[Callable[[], Any], ...]] = (
    object,
    lambda: {1, "a", None},
    lambda: {(1, 2): 3},
    lambda: math.nan,
    lambda: math.inf,
    lambda: b"\xff",
    lambda: "\ud800",
    lambda: 10**5_000,
    lambda: len,
    lambda: iter(()),
    lambda: {"a": [object()]},
    _endless,
    lambda: _deep(200),
    lambda: _deep(5_000),
    lambda: Dot(object()),  # type: ignore[arg-type]
)
WRONG_POINT: Final = Point(cast("int", "1"))
OBJECTS: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 2**63, 10**400, 1.5, math.nan, math.inf, "", "1", "2026-01-01", "red", "\ud800", b"", b"\xff"),
    *([], [None], ["a", 1], (), (1,), (1, "a", 2), ("a", 1), {}, {"a": "b"}, {1: 2}, {"x": 1}, set(), {"a"}, {1.5}),
    *(
        object(),
        len,
        int,
        Color.BLUE,
        Shade.RED,
        Point(1),
        Dot(1),
        Point(cast("int", "1")),
        [Dot(1)],
        [Point(cast("int", None))],
        _deep(200),
    ),
    *(datetime(2026, 1, 1), complex(1), range(3), Unknown(), Exception("e"), memoryview(b"m"), bytearray(b"b")),  # noqa: DTZ001
)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 1, -1, 2**70, 1.5, "", "1", "text", "2026-01-01", "red", "dark red", "!", [], [None], ["a", 1], [1]),
    *([1, "a", 2], ["a", 1], {}, {"a": "b"}, {"x": "1"}, {"x": 1, "y": "z"}, {"y": 1.0}, [{"x": None}], [[1]], [1.5]),
)
RIGHT: Final[dict[str, Callable[[Any], bool]]] = {
    "number": lambda one: type(one) is int,
    "share": lambda one: type(one) in {int, float},
    "text": lambda one: type(one) is str,
    "yes": lambda one: type(one) is bool,
    "data": lambda one: isinstance(one, bytes | bytearray | memoryview | str),
    "when": lambda one: isinstance(one, datetime | str),
    "color": lambda one: one is Color.BLUE or one == "red",
    "maybe": lambda one: one is None or type(one) is int,
    "names": lambda one: type(one) is list and all(type(each) is str for each in one),
    "pair": lambda one: len(one) == 2 and type(one[0]) is int if isinstance(one, tuple | list) else False,
    "counts": lambda one: type(one) is dict and all(type(each) is int for each in one.values()),
    "chosen": lambda one: isinstance(one, set | list) and all(type(each) is int for each in one),
    "point": lambda one: isinstance(one, Point) or (type(one) is dict and type(one.get("x")) is int),
    "points": lambda one: one == [],
}
"""True for all values that a field may have, as an object or as JSON; also for some that it refuses."""
WRONG_OBJECTS: Final = {name: [one for one in OBJECTS if not is_right(one)] for name, is_right in RIGHT.items()}
WRONG_VALUES: Final = {name: [one for one in VALUES if not is_right(one)] for name, is_right in RIGHT.items()}
STORE_PATHS: Final = ("get", "range", "put", "delete", "txn", "compact", "lease/grant", "lease/keep", "lease/revoke")
STORE_FIELDS: Final = {
    "key": "k",
    "end": "l",
    "value": "v",
    "limit": 5,
    "lease": 9,
    "ttl_ms": 5_000,
    "revision": 1,
    "timeout_ms": 900,
    "then": [],
    "conditions": [],
    "otherwise": [],
    "stale": True,
    "max_age_ms": 5,
    "numbered": True,
}


class Forms(StateMachine[Form | Answer, Any]):
    """Counts its commands, and keeps all it was given."""

    def __init__(self) -> None:
        self.count = 0
        self.given: list[Form | Answer] = []

    def apply(self, command: Form | Answer, context: Applied) -> Any:
        del context
        self.count += 1
        self.given = [*self.given[-9:], command]
        return RESULTS[command.at]() if isinstance(command, Answer) else self.count

    def snapshot(self) -> Iterable[bytes]:
        return [str(self.count).encode()]

    def restore(self, records: Iterable[bytes]) -> None:
        [count] = records
        self.count = int(count)


class LogReader:
    """A listener that reads the whole log for commands that nobody was allowed to write."""

    def __init__(self, is_right: Callable[[bytes], bool]) -> None:
        self._is_right = is_right
        self.wrong: list[bytes] = []
        self.count = 0

    def handle_commit(self, reader: Reader[bytes]) -> None:
        for batch in reader:
            for record in map(decode_log_record, batch.records):
                if isinstance(record, CommandRecord):
                    self.count += 1
                    if not self._is_right(record.command):
                        self.wrong.append(record.command)

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        del leader_and_epoch


class Stranger:
    """A connection to the leader of a quorum, which has a session of its own."""

    def __init__(self, nodes: Sequence[Replicated[Any]], stack: AsyncExitStack) -> None:
        """The stack closes its connections."""
        self._nodes = nodes
        self._stack = stack
        self.session = -1

    async def open(self) -> None:
        self._node = await leader_of(self._nodes)
        endpoint = self._node.node.endpoint
        self._reader, self._writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        self._stack.push_async_callback(_close, self._writer)
        self.session = (await self.forward([encode_log_record(OpenRecord(0, STRANGER_NONCE))]))["offset"]

    async def forward(self, records: Sequence[bytes]) -> Body:
        body = {"cluster_id": self._node._server._cluster_id, "records": packed(records)}
        self._writer.write(b"".join(frame([b"".join(encode_request(ApiKey.FORWARD, 0, 7, None, body))])))
        async with asyncio.timeout(ANSWER_S_MAX):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
        answer: Body = decode_response(ApiKey.FORWARD, 0, await self._reader.readexactly(size))[1]
        return answer

    async def refused(self, command: bytes) -> None:
        answer = await self.forward([encode_command(0, self.session, 0, 0, command)])
        while answer["error_code"] == NOT_LEADER:
            await self.open()
            answer = await self.forward([encode_command(0, self.session, 0, 0, command)])
        assert answer["error_code"] == INVALID_REQUEST, (command[:200], answer)


class Fuzz:
    """What is drawn, and what must come of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.counts: Counter[str] = Counter()
        """Inputs by where they went and what was wrong with them."""
        self.good = {Forms.commands.serialize(one) for one in (Form(), *map(Answer, range(len(RESULTS))))}
        self.store_good = {KeyValues.commands.serialize(Transaction((Put("alive", str(at)),))) for at in range(1, 4)}
        self._form = json.loads(Forms.commands.serialize(Form()))[1]

    async def execute(self, node: Replicated[Forms]) -> None:
        """A command with one or two fields of another type, or of another class."""
        command: Any = Form()
        for name in self.random.sample([*WRONG_OBJECTS], self.random.randint(1, 2)):
            setattr(command, name, self.random.choice(WRONG_OBJECTS[name]))
        if self.random.random() < 0.02:
            command = self.random.choice(
                (Unknown(), None, {}, "Form", Form, Answer(cast("int", "0")), Answer(cast("int", None)))
            )
        try:
            result = await node.execute(command)
        except (CommandRejectedError, OutcomeUnknownError) as error:
            raise AssertionError(f"{command!r} got into the log") from error
        except Exception as error:  # noqa: BLE001 - whatever the serde raises, as documented
            self.counts[f"execute: {type(error).__name__}"] += 1
        else:
            raise AssertionError(f"{command!r} was applied: {result!r}")

    async def answer(self, node: Replicated[Forms]) -> None:
        """A right command, whose result no serde can express."""
        command = Answer(self.random.randrange(len(RESULTS)))
        try:
            result = await node.execute(command, timeout_ms=TIMEOUT_MS_MAX)
        except CommandRejectedError:
            self.counts["execute: result of wrong shape"] += 1
        else:
            raise AssertionError(f"{command!r} was answered with {result!r:.200}")

    def drawn_bytes(self) -> tuple[str, bytes]:
        """A command in bytes that the leader must refuse, and what is wrong with it."""
        form = {**self._form}
        match self.random.randrange(8):
            case 0 | 1 | 2 | 3:
                for name in self.random.sample([*WRONG_VALUES], self.random.randint(1, 2)):
                    form[name] = self.random.choice(WRONG_VALUES[name])
                return "field of another type", _json(["Form", form])
            case 4:
                return "field that the class lacks", _json(["Form", {**form, f"more{self.random.random()}": 1}])
            case 5:
                data = _json(["Form", form])
                return "torn", data[: self.random.randrange(len(data))]
            case 6:
                return "random bytes", b"\xff" + self.random.randbytes(self.random.randrange(60))
            case _:
                named: Any = self.random.choice(("Unknown", "", None, 5, "form", "Put"))
                return "other command", _json(
                    self.random.choice(([named, form], named, [named], {"Form": form}, ["Form"]))
                )

    def drawn_operation(self) -> Any:
        """An operation of a transaction in the form of the log, wrong in one place."""
        good = self.random.choice((["Put", "k", "v", 0, False], ["Get", "k", None, 5], ["Delete", "k", None]))
        at = self.random.randrange(len(good))
        is_text = at and (isinstance(good[at], str) or good[at] is None)
        wrong = [7, 1.5, [], {}, True] if is_text else ["x", 1.5, [], {}, -1]
        return [*good[:at], self.random.choice(wrong), *good[at + 1 :]]

    async def forward(self, stranger: Stranger, store: Stranger) -> None:
        """Wrong bytes to the leader of either quorum."""
        if self.random.random() < 0.3:
            await store.refused(_json(["Transaction", [self.drawn_operation()]]))
            self.counts["Forward: operation of the store"] += 1
            return
        what, command = self.drawn_bytes()
        await stranger.refused(command)
        self.counts[f"Forward: {what}"] += 1

    async def call(self, api: KeyValueApi) -> None:
        """A call of the API with wrong JSON."""
        path = self.random.choice(STORE_PATHS)
        body: Any = {name: value for name, value in STORE_FIELDS.items() if self.random.random() < 0.4}
        match self.random.randrange(6):
            case 0:
                body = self.random.choice((None, 5, "text", [], [body], True))
            case 1:
                whole = json.dumps(body).encode()
                body = whole[:-1] + self.random.randbytes(self.random.randrange(9))
                with suppress(ValueError):
                    json.loads(body)
                    body = whole[:-1]  # one byte in 256 is the bracket that was taken off
            case 2:
                operation: Any = self.random.choice((5, "put", [], {}, {"put": 5}, {"get": {"key": 5}}, {"delete": []}))
                path, body = "txn", {"then": [operation]}
            case _:
                body = {**body, "key": "k", "value": "v", "ttl_ms": 5_000, "revision": 1, "lease": 9}
                body[self.random.choice([*body])] = self.random.choice(
                    (5.5, [], {}, [None], -1, "\x00" * 40_000, 10**30)
                )
                body["extra"] = 1
        client = await Client(f"/v1/{path}", body).call(api)
        error = client.json()["error"] if 400 <= client.status < 500 else {}
        assert error.get("outcome") == "not applied", (path, body, client.status, client.text[:300])
        self.counts[f"HTTP: {error['code']}"] += 1


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


async def run(folder: Path, *, inputs: int, seed: int) -> Counter[str]:
    """Send so many inputs; returns how many of each kind there were. Errors: AssertionError when one hurts."""
    fuzz = Fuzz(Random(seed))
    random = fuzz.random
    async with (
        nodes_of(Forms, folder / "forms", raft=STEADY) as forms,
        nodes_of(KeyValues, folder / "store", raft=STEADY) as stores,
        AsyncExitStack() as stack,
    ):
        readers = [LogReader(fuzz.good.__contains__), LogReader(fuzz.store_good.__contains__)]
        for reader, node in zip(readers, (forms[0].node, stores[0].node), strict=True):
            node.register(reader)
        apis = [*map(KeyValueApi, stores)]
        for api in apis:
            stack.callback(api.close)
        strangers = [Stranger(forms, stack), Stranger(stores, stack)]
        for one in strangers:
            await one.open()
        for begin in range(0, inputs, ROUND_INPUTS):
            for _ in range(min(inputs - begin, ROUND_INPUTS)):
                match random.randrange(8):
                    case 0 | 1 | 2:
                        await fuzz.execute(random.choice(forms))
                    case 3 if random.random() < 0.2:
                        await fuzz.answer(random.choice(forms))
                    case 3 | 4 | 5:
                        await fuzz.forward(strangers[0], strangers[1])
                    case _:
                        await fuzz.call(random.choice(apis))
            await _serve_on(forms, stores)
            assert not any(reader.wrong for reader in readers), [reader.wrong[:3] for reader in readers]
        await _end_alike(forms, lambda state: (state.count, state.given))
        await _end_alike(stores, lambda state: state.range("", ""))
        assert all(reader.count for reader in readers), "the logs were read"
    return fuzz.counts


async def _serve_on(forms: Sequence[Replicated[Forms]], stores: Sequence[Replicated[KeyValues]]) -> None:
    for each in forms:
        assert isinstance(await each.execute(Form(), timeout_ms=TIMEOUT_MS_MAX), int)
    for at, store in enumerate(stores, 1):
        await store.execute(Transaction((Put("alive", str(at)),)), timeout_ms=TIMEOUT_MS_MAX)


async def _end_alike(nodes: Sequence[Replicated[Any]], state_of: Callable[[Any], object]) -> None:
    seen = []
    for each in nodes:
        async with each.read() as state:
            seen.append(state_of(state))
    assert all(one == seen[0] for one in seen), seen


def main() -> None:
    """Send inputs, and print what was sent."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine.typed_fuzz")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    logging.getLogger("pykraft").setLevel(logging.CRITICAL)  # it logs each failed apply
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = asyncio.run(run(Path(folder), inputs=options.inputs, seed=options.seed))
    for what, count in sorted(counts.items()):
        print(f"{count:>9,}  {what}")
    print(
        f"{sum(counts.values()):,} inputs in {time.monotonic() - started_s:.0f} s: every node goes on, no log has any"
    )


if __name__ == "__main__":
    main()

"""The HTTP/JSON API of a node's key-value store, as an ASGI application without a framework.

Each call is a POST to a path of its own with a JSON object, so that keys need no escaping and a call is one line of
`curl`. What a call changes is applied once, or its error says what is known (`pykraft.kv.json_form`). Bodies are
read, and answers written, within bounds of size and time: a client that reads too slowly is disconnected, and its
answer ends short of its length or of the last chunk, which every HTTP client notices. Whoever connects may do
everything, unless credentials are wanted. A web page that is open in a browser on the same machine reaches loopback
addresses, too: requests that name an ``Origin`` are refused.

A watch is an answer of JSON lines without an end. It has no queue: it reads the store's changes as fast as its client
reads the answer. Invariant: a watch either delivers every change from its revision on, each once and in order, or its
answer ends: with a last line that has the error, or without a last chunk.

A lock is for clients that cannot keep a block open: whoever has the lease has the place in the queue, and the lock. The
keys are those of `pykraft.recipes.coordination`, so that programs and clients wait for each other. Invariant: two
leases never hold one lock, and a later holder has a higher token.

1. A client whose lease has no key in the queue puts a numbered one. It asks again with that lease to go on waiting, on
   any node, also when it does not know whether an earlier request put the key.
2. The same transaction puts a key that has the lease in its name, so no lease has a second one, or waits for itself.
3. The lease with the lowest key of all holds the lock. Its key's revision is the token, as in the recipe.

Source: ours (ADR 085, ADR 090); the ASGI specification 3.0; RFC 9112 §7.1 (chunks); Fetch standard §3.2 (Origin).
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from pykraft.errors import BufferFullError, CommandRejectedError, CompactedError, NotRunningError, UsageError
from pykraft.kv import json_form
from pykraft.machine import Replicated
from pykraft.machine.asgi import AsgiReceive, AsgiScope, AsgiSend
from pykraft.machine.replicated import TIMEOUT_MS, TIMEOUT_MS_MAX
from pykraft.recipes import Condition, Delete, KeyChange, KeyValues, KeyValueStore, Put, key_value_commands
from pykraft.recipes.coordination import AFTER_DIGITS, namespace, wait_deleted
from pykraft.recipes.key_space import item_size_bytes

BODY_SIZE_BYTES_MAX: Final = 1 << 22
"""A command has at most 1 MiB, which the escapes of JSON make three times as many."""
BODY_TIMEOUT_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 15.0
"""How long a client may read nothing while an answer is written to it."""
PIECE_SIZE_BYTES: Final = 1 << 16
ABORT: Final = "pykraft.abort"
"""Under this key of the scope the server passes a function that ends the connection at once, if it has one."""
NOTHING_MORE: Final = b"connection: close"
"""The header of an answer when the rest of the request's body will not be read."""

_Message: TypeAlias = MutableMapping[str, Any]


class ClientGoneError(Exception):
    """The client has disconnected, or was disconnected: nobody waits for the answer."""


class Exchange:
    """A request, and the way back to its client."""

    def __init__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._abort: Callable[[], None] | None = scope.get(ABORT)
        self._receive = receive
        self._send = send
        self._is_begun = False

    async def body(self) -> bytes:
        """The whole body. Errors: RequestRefusedError for one that is too large or too slow; ClientGoneError."""
        length = self.headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 10 or int(length) > BODY_SIZE_BYTES_MAX):
            raise _too_large()
        received = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    received += message.get("body", b"")
                    if len(received) > BODY_SIZE_BYTES_MAX:
                        raise _too_large()
                    if not message.get("more_body"):
                        return bytes(received)
        except TimeoutError:
            text = f"the body did not arrive within {BODY_TIMEOUT_S:g} s"
            raise json_form.RequestRefusedError(HTTPStatus.REQUEST_TIMEOUT, "too_slow", text, NOTHING_MORE) from None

    async def gone(self) -> None:
        """Wait until the client disconnects; after `body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, content: dict[str, Any], status: HTTPStatus = HTTPStatus.OK, *headers: bytes) -> None:
        """The whole answer. Errors: ClientGoneError."""
        data = _line(content)
        pairs = [tuple(header.split(b": ", 1)) for header in (b"content-length: %d" % len(data), *headers)]
        head = [self._start(status, b"application/json", pairs)]
        # In pieces, so that a server that counts what waits to be read can hold back.
        for at in range(0, len(data), PIECE_SIZE_BYTES):
            piece = _piece(data[at : at + PIECE_SIZE_BYTES], more=at + PIECE_SIZE_BYTES < len(data))
            await self._deliver(*head, piece)
            head = []

    async def begin_lines(self) -> None:
        """Begin an answer of JSON lines. Errors: ClientGoneError."""
        await self._deliver(self._start(HTTPStatus.OK, b"application/x-ndjson", []))

    async def line(self, content: dict[str, Any]) -> None:
        """One line of the answer. Errors: ClientGoneError, also for a client that reads too slowly."""
        await self._deliver(_piece(_line(content), more=True))

    async def fail(self, failure: json_form.ApiFailure) -> None:
        """Answer with an error, or make it the last line. Errors: ClientGoneError."""
        if self._is_begun:
            await self.line(failure.as_json())
            await self._deliver(_piece(b"", more=False))
            return
        await self.answer(failure.as_json(), failure.status, *failure.headers)

    def _start(self, status: HTTPStatus, kind: bytes, headers: list[Any]) -> _Message:
        self._is_begun = True
        own = [(b"content-type", kind), (b"cache-control", b"no-store"), *headers]
        return {"type": "http.response.start", "status": int(status), "headers": own}

    async def _deliver(self, *messages: _Message) -> None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                for message in messages:
                    await self._send(message)
        except TimeoutError:
            if self._abort is not None:
                self._abort()
            raise ClientGoneError from None
        except OSError:
            raise ClientGoneError from None


def _piece(data: bytes, *, more: bool) -> _Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _too_large() -> json_form.RequestRefusedError:
    text = f"a body has at most {BODY_SIZE_BYTES_MAX} bytes"
    return json_form.RequestRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", text, NOTHING_MORE)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


WATCHES_MAX: Final = 250
"""Half of the connections, so that other requests find a place."""
SIGN_OF_LIFE_S: Final = 5.0
"""After this time without a change there is an empty line, so that both sides notice when the other is gone."""


class WatchStreams:
    """The open watches of a node."""

    def __init__(self, node: Replicated[KeyValues]) -> None:
        self._node = node
        self._store = KeyValueStore(node)
        self._count = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """The node ends: end each watch with a last line."""
        self._closing.set()

    async def run(self, exchange: Exchange, key: str, end: str | None, from_revision: int | None) -> None:
        """Answer with the changes of a range, from a revision on, or from the next change on.

        Errors: CompactedError, UsageError, BufferFullError, NotRunningError and those of a read: before the first line,
        or after all changes before the error were sent.
        """
        if self._count >= WATCHES_MAX:
            raise BufferFullError(f"this node has {WATCHES_MAX} watches: end one, or ask another node")
        self._count += 1
        try:
            async with self._node.read() as state:
                last, oldest = state.space.revision, state.space.oldest_revision
            begin = last + 1 if from_revision is None else from_revision
            if begin > last + 1:
                raise UsageError(f"from_revision = {begin}: the last change has revision {last}")
            if begin < oldest:
                raise CompactedError(begin, oldest)
            changes = self._store.watch(key, end, from_revision=begin)
            await exchange.begin_lines()
            await exchange.line({"from_revision": begin})
            await self._deliver(exchange, changes)
        finally:
            self._count -= 1

    async def _deliver(self, exchange: Exchange, changes: AsyncGenerator[KeyChange, None]) -> None:
        gone = asyncio.ensure_future(exchange.gone())
        closing = asyncio.ensure_future(self._closing.wait())
        upcoming: asyncio.Future[KeyChange] | None = None
        try:
            while not gone.done():
                if closing.done():
                    raise NotRunningError("this node is shutting down: watch from the next revision at another one")
                if upcoming is None:
                    upcoming = asyncio.ensure_future(anext(changes))
                waiting: set[asyncio.Future[Any]] = {upcoming, gone, closing}
                await asyncio.wait(waiting, timeout=SIGN_OF_LIFE_S, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    change, upcoming = upcoming.result(), None
                    await exchange.line(json_form.change_json(change))
                elif not (gone.done() or closing.done()):
                    await exchange.line({})
        finally:
            ending = [one for one in (gone, closing, upcoming) if one is not None and not one.done()]
            for one in ending:
                one.cancel()
            if ending:
                await asyncio.wait(ending)
            await changes.aclose()


QUEUE_MAX = 10_000
"""Candidates of one lock."""
LOCK_CALLS_MAX: Final = 125
"""Calls of a node that wait for a lock: a quarter of the connections, so that other requests find a place."""


@dataclass(frozen=True, slots=True)
class LockPlace:
    """A place in the queue of a lock: how many are ahead, 0 for the holder, whose token alone is valid."""

    key: str
    token: int
    ahead: int


async def acquire(store: KeyValueStore, name: str, *, lease: int, holder: str, wait_s: float) -> LockPlace:
    """Wait this long for the lock; returns the place in its queue, which stays as long as the lease.

    Errors: CommandRejectedError when the lease has ended; those of the store.
    """
    space, own = _lock_keys(name, lease)
    item = await store.get(own)
    if item is None:
        # 1. Whoever has the lease comes back for the same key.
        if await store.count(space, space + AFTER_DIGITS, stale=True) >= QUEUE_MAX:
            raise CommandRejectedError(f"{QUEUE_MAX} candidates wait for this lock")
        # 2. An earlier request of this lease may have come in between.
        is_new = [Condition(own, "version", "==", 0)]
        await store.transact([Put(space, holder, lease, numbered=True), Put(own, "", lease)], is_new)
        item = await store.get(own)
        if item is None:
            raise CommandRejectedError(f"lease {lease} has ended, or never was")
    key = key_value_commands.numbered_key(space, item.created)
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            while (before := await store.last(space, key, stale=True)) is not None:
                await wait_deleted(store, before)
    # 3. It is the holder's if it is the lowest of all.
    if await store.get(key) is None:
        raise CommandRejectedError(f"lease {lease} has ended, or never was")
    return LockPlace(key, item.created, await store.count(space, key, stale=True))


async def release(store: KeyValueStore, name: str, *, lease: int) -> bool:
    """Give the lock, or the place in its queue, up; the lease lives on. False if there was none, or no longer."""
    space, own = _lock_keys(name, lease)
    item = await store.get(own)
    if item is None:
        return False
    same = [Condition(own, "created", "==", item.created)]
    return (
        await store.transact([Delete(key_value_commands.numbered_key(space, item.created)), Delete(own)], same)
    ).succeeded


def _lock_keys(name: str, lease: int) -> tuple[str, str]:
    """What the keys of candidates begin with, and the key that says which of them this lease has."""
    if not name:
        raise UsageError("name: a lock has a name of at least one character")
    space = namespace("lock", name)
    return space, f"{space}own/{lease}"


RANGE_SIZE_BYTES_MAX: Final = 1 << 20
"""Keys and values in the answer to one range; at least one item is in it."""

WANTED: Final = (b"www-authenticate: Basic realm=pykraft", b"www-authenticate: Bearer")
_Call: TypeAlias = Callable[[json_form.JsonFields, int], Awaitable[dict[str, Any]]]
"""Takes the fields of the body and the timeout in ms; returns the answer."""

logger = logging.getLogger("pykraft")


class KeyValueApi:
    """The application of one node; it must run on the node's loop."""

    def __init__(self, node: Replicated[KeyValues], *, allow: Callable[[bytes], bool] | None = None) -> None:
        """``allow`` says whether a request with this Authorization (RFC 9110 §11.6.2), or none, is answered."""
        self._node = node
        self._allow = allow
        self._watches = WatchStreams(node)
        self._lock_calls = 0
        self._calls: Mapping[str, _Call] = {
            "/v1/get": self._get,
            "/v1/range": self._range,
            "/v1/put": self._put,
            "/v1/delete": self._delete,
            "/v1/txn": self._transact,
            "/v1/compact": self._compact,
            "/v1/lease/grant": self._grant,
            "/v1/lease/keep": self._keep,
            "/v1/lease/revoke": self._revoke,
            "/v1/lock": self._lock,
            "/v1/unlock": self._unlock,
        }

    def close(self) -> None:
        """The node ends: end all watches."""
        self._watches.close()

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request. Raises nothing but what the server raises."""
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        try:
            try:
                await self._serve(exchange)
            except ClientGoneError:
                raise
            except Exception as error:
                failure = json_form.failure_of(error)
                if failure.is_bug:
                    logger.exception("%s %s", exchange.method, exchange.path)
                await exchange.fail(failure)
        except ClientGoneError:
            return

    async def _serve(self, exchange: Exchange) -> None:
        if b"origin" in exchange.headers:
            raise json_form.RequestRefusedError(HTTPStatus.FORBIDDEN, "browser", "requests of web pages are refused")
        if self._allow is not None and not self._allow(exchange.headers.get(b"authorization", b"")):
            told = "a user and password, or a token, of --credentials-file is wanted"
            raise json_form.RequestRefusedError(HTTPStatus.UNAUTHORIZED, "unauthorized", told, *WANTED)
        if exchange.path == "/v1/status":
            self._require(exchange, "GET")
            await exchange.answer(self._status())
            return
        call = self._calls.get(exchange.path)
        if call is None and exchange.path != "/v1/watch":
            paths = ", ".join(("GET /v1/status", *self._calls, "/v1/watch"))
            raise json_form.RequestRefusedError(HTTPStatus.NOT_FOUND, "no_such_path", f"there is {paths}")
        self._require(exchange, "POST")
        fields = json_form.parse_object(await exchange.body())
        if call is None:
            key, end = json_form.read_range(fields)
            from_revision = fields.whole_or_none("from_revision", least=1)
            fields.end()
            key_value_commands.check_range(key, end)
            await self._watches.run(exchange, key, end, from_revision)
            return
        timeout_ms = fields.whole("timeout_ms", least=1, most=TIMEOUT_MS_MAX, default=TIMEOUT_MS)
        answer = call(fields, timeout_ms)
        await exchange.answer(await (self._while_there(exchange, answer) if exchange.path == "/v1/lock" else answer))

    async def _while_there(self, exchange: Exchange, answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Wait for an answer that may take half a minute, as long as the client does. Errors: ClientGoneError."""
        answering = asyncio.ensure_future(answer)
        waiting: set[asyncio.Future[Any]] = {asyncio.ensure_future(exchange.gone()), answering}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientGoneError
            return answering.result()
        finally:
            pending = [each for each in waiting if not each.done()]
            for each in pending:
                each.cancel()
            if pending:
                await asyncio.wait(pending)

    @staticmethod
    def _require(exchange: Exchange, method: str) -> None:
        if exchange.method != method:
            told = f"{exchange.path} takes {method}"
            allow = f"allow: {method}".encode()
            raise json_form.RequestRefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", told, allow)

    def _status(self) -> dict[str, Any]:
        leader = self._node.node.leader_and_epoch
        return {
            "node_id": self._node.node.node_id,
            "leader_id": leader.leader_id,
            "leader_epoch": leader.epoch,
            "revision": self._node.machine.space.revision,
            "not_taken_up": [report.as_json() for report in self._node.node.not_taken_up],
        }

    async def _get(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        key, revision = fields.text("key"), fields.whole_or_none("revision", least=1)
        reading = self._reading(fields, timeout_ms)
        fields.end()
        key_value_commands.check_range(key)
        async with reading as state:
            item = state.get(key, revision)
            return {"revision": state.space.revision, "item": None if item is None else json_form.item_json(item)}

    async def _range(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        key, end = json_form.read_range(fields)
        limit = fields.whole("limit", least=1, most=key_value_commands.GET_LIMIT_MAX, default=100)
        revision = fields.whole_or_none("revision", least=1)
        reading = self._reading(fields, timeout_ms)
        fields.end()
        key_value_commands.check_range(key, end)
        async with reading as state:
            found = state.range(key, end, limit + 1, revision)
            items: list[Any] = []
            size_bytes = 0
            for item in found[:limit]:
                size_bytes += item_size_bytes(item)
                if items and size_bytes > RANGE_SIZE_BYTES_MAX:
                    break
                items.append(json_form.item_json(item))
            return {"revision": state.space.revision, "items": items, "more": len(items) < len(found)}

    async def _put(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        put = json_form.read_put(fields)
        before = json_form.read_previous(fields, put.key, is_one=not put.numbered)
        fields.end()
        result = await self._store(timeout_ms).transact([put, *before])
        key = key_value_commands.numbered_key(put.key, result.revision) if put.numbered else put.key
        return {"revision": result.revision, "key": key, **json_form.previous_json(result)}

    async def _delete(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        key, end = json_form.read_range(fields)
        before = json_form.read_previous(fields, key, is_one=end is None)
        fields.end()
        result = await self._store(timeout_ms).transact([Delete(key, end), *before])
        return {"revision": result.revision, "deleted": result.deleted, **json_form.previous_json(result)}

    async def _transact(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        command = json_form.read_transaction(fields)
        fields.end()
        result = await self._store(timeout_ms).transact(command.then, command.conditions, command.otherwise)
        return json_form.result_json(result)

    async def _compact(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        revision = fields.whole("revision", least=1)
        fields.end()
        await self._store(timeout_ms).compact(revision)
        return {"oldest_revision": revision}

    async def _grant(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        ttl_ms = fields.whole(
            "ttl_ms", least=key_value_commands.LEASE_TTL_MS_MIN, most=key_value_commands.LEASE_TTL_MS_MAX
        )
        fields.end()
        return {"lease": await self._store(timeout_ms).grant_lease(ttl_ms), "ttl_ms": ttl_ms}

    async def _keep(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        lease = fields.whole("lease", least=1)
        fields.end()
        await self._store(timeout_ms).keep_lease(lease)
        return {"lease": lease}

    async def _revoke(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        lease = fields.whole("lease", least=1)
        fields.end()
        await self._store(timeout_ms).end_lease(lease)
        return {"lease": lease}

    async def _lock(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        name, lease = fields.text("name"), fields.whole("lease", least=1)
        holder = fields.text_or_none("holder") or ""
        wait_ms = fields.whole("wait_ms", most=TIMEOUT_MS_MAX, default=TIMEOUT_MS)
        fields.end()
        if self._lock_calls >= LOCK_CALLS_MAX:
            raise BufferFullError(f"{LOCK_CALLS_MAX} calls of this node wait for locks: ask another node")
        self._lock_calls += 1
        try:
            place = await acquire(self._store(timeout_ms), name, lease=lease, holder=holder, wait_s=wait_ms / 1_000)
        finally:
            self._lock_calls -= 1
        return {"held": place.ahead == 0, "token": place.token, "key": place.key, "ahead": place.ahead}

    async def _unlock(self, fields: json_form.JsonFields, timeout_ms: int) -> dict[str, Any]:
        name, lease = fields.text("name"), fields.whole("lease", least=1)
        fields.end()
        return {"released": await release(self._store(timeout_ms), name, lease=lease)}

    def _store(self, timeout_ms: int) -> KeyValueStore:
        return KeyValueStore(self._node, timeout_ms=timeout_ms)

    def _reading(self, fields: json_form.JsonFields, timeout_ms: int) -> AbstractAsyncContextManager[KeyValues]:
        """A read, linearizable unless ``stale`` is true. Errors: UsageError."""
        stale, max_age_ms = fields.flag("stale"), fields.whole_or_none("max_age_ms")
        return self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=timeout_ms)

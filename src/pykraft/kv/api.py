"""The HTTP/JSON API of a node's key-value store, as an ASGI application without a framework.

Each call is a POST to a path of its own with a JSON object, so that keys need no escaping and a call is one line of
`curl`. What a call changes is applied once, or its error says what is known (`pykraft.kv.json_answers`).

There is no authentication. A web page that is open in a browser on the same machine reaches loopback addresses, too:
requests that name an ``Origin``, as those of pages do, are refused.

Source: ours (ADR 085); Fetch standard §3.2 (Origin).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from pykraft.kv.exchange import AsgiReceive, AsgiScope, AsgiSend, ClientGoneError, Exchange
from pykraft.kv.json_answers import RequestRefusedError, failure_of, item_json, result_json
from pykraft.kv.json_fields import JsonFields, parse_object
from pykraft.kv.json_requests import read_put, read_range, read_transaction
from pykraft.kv.json_values import stored_text
from pykraft.kv.lease_locks import acquire, release
from pykraft.kv.watch_streams import WatchStreams
from pykraft.machine import Replicated
from pykraft.machine.replicated import TIMEOUT_MS, TIMEOUT_MS_MAX
from pykraft.recipes import Delete, KeyValues, KeyValueStore
from pykraft.recipes.key_space import item_size_bytes
from pykraft.recipes.key_value_commands import GET_LIMIT_MAX, LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN, check_range

RANGE_SIZE_BYTES_MAX: Final = 1 << 20
"""Keys and values in the answer to one range; at least one item is in it."""

_Call: TypeAlias = Callable[[JsonFields, int], Awaitable[dict[str, Any]]]
"""Takes the fields of the body and the timeout in ms; returns the answer."""

logger = logging.getLogger("pykraft")


class KeyValueApi:
    """The application of one node; it must run on the node's loop."""

    def __init__(self, node: Replicated[KeyValues]) -> None:
        self._node = node
        self._watches = WatchStreams(node)
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
                failure = failure_of(error)
                if failure.is_bug:
                    logger.exception("%s %s", exchange.method, exchange.path)
                await exchange.fail(failure)
        except ClientGoneError:
            return

    async def _serve(self, exchange: Exchange) -> None:
        if b"origin" in exchange.headers:
            raise RequestRefusedError(HTTPStatus.FORBIDDEN, "browser", "requests of web pages are refused")
        if exchange.path == "/v1/status":
            self._require(exchange, "GET")
            await exchange.answer(self._status())
            return
        call = self._calls.get(exchange.path)
        if call is None and exchange.path != "/v1/watch":
            paths = ", ".join(("GET /v1/status", *self._calls, "/v1/watch"))
            raise RequestRefusedError(HTTPStatus.NOT_FOUND, "no_such_path", f"there is {paths}")
        self._require(exchange, "POST")
        fields = parse_object(await exchange.body())
        if call is None:
            key, end = read_range(fields)
            from_revision = fields.whole_or_none("from_revision", least=1)
            fields.end()
            check_range(key, end)
            await self._watches.run(exchange, key, end, from_revision)
            return
        timeout_ms = fields.whole("timeout_ms", least=1, most=TIMEOUT_MS_MAX, default=TIMEOUT_MS)
        await exchange.answer(await call(fields, timeout_ms))

    @staticmethod
    def _require(exchange: Exchange, method: str) -> None:
        if exchange.method != method:
            told = f"{exchange.path} takes {method}"
            allow = f"allow: {method}".encode()
            raise RequestRefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", told, allow)

    def _status(self) -> dict[str, Any]:
        """Of this node, as it knows it now."""
        leader = self._node.node.leader_and_epoch
        return {
            "node_id": self._node.node.node_id,
            "leader_id": leader.leader_id,
            "leader_epoch": leader.epoch,
            "revision": self._node.machine.space.revision,
        }

    async def _get(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        key = fields.text("key")
        reading = self._reading(fields, timeout_ms)
        fields.end()
        check_range(key)
        async with reading as state:
            item = state.get(key)
            return {"revision": state.space.revision, "item": None if item is None else item_json(item)}

    async def _range(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        key, end = read_range(fields)
        limit = fields.whole("limit", least=1, most=GET_LIMIT_MAX, default=100)
        reading = self._reading(fields, timeout_ms)
        fields.end()
        check_range(key, end)
        async with reading as state:
            found = state.range(key, end, limit + 1)
            items: list[Any] = []
            size_bytes = 0
            for item in found[:limit]:
                size_bytes += item_size_bytes(item)
                if items and size_bytes > RANGE_SIZE_BYTES_MAX:
                    break
                items.append(item_json(item))
            return {"revision": state.space.revision, "items": items, "more": len(items) < len(found)}

    async def _put(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        put = read_put(fields)
        fields.end()
        result = await self._store(timeout_ms).transact([put])
        key = f"{put.key}{result.revision:016d}" if put.numbered else put.key
        return {"revision": result.revision, "key": key}

    async def _delete(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        key, end = read_range(fields)
        fields.end()
        result = await self._store(timeout_ms).transact([Delete(key, end)])
        return {"revision": result.revision, "deleted": result.deleted}

    async def _transact(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        command = read_transaction(fields)
        fields.end()
        result = await self._store(timeout_ms).transact(command.then, command.conditions, command.otherwise)
        return result_json(result)

    async def _compact(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        revision = fields.whole("revision", least=1)
        fields.end()
        await self._store(timeout_ms).compact(revision)
        return {"oldest_revision": revision}

    async def _grant(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        ttl_ms = fields.whole("ttl_ms", least=LEASE_TTL_MS_MIN, most=LEASE_TTL_MS_MAX)
        fields.end()
        return {"lease": await self._store(timeout_ms).grant_lease(ttl_ms), "ttl_ms": ttl_ms}

    async def _keep(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        lease = fields.whole("lease", least=1)
        fields.end()
        await self._store(timeout_ms).keep_lease(lease)
        return {"lease": lease}

    async def _revoke(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        lease = fields.whole("lease", least=1)
        fields.end()
        await self._store(timeout_ms).end_lease(lease)
        return {"lease": lease}

    async def _lock(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        name, lease = fields.text("name"), fields.whole("lease", least=1)
        holder = stored_text(fields.text_or_none("holder") or "")
        wait_ms = fields.whole("wait_ms", most=TIMEOUT_MS_MAX, default=TIMEOUT_MS)
        fields.end()
        place = await acquire(self._store(timeout_ms), name, lease=lease, holder=holder, wait_s=wait_ms / 1_000)
        return {"held": place.ahead == 0, "token": place.token, "key": place.key, "ahead": place.ahead}

    async def _unlock(self, fields: JsonFields, timeout_ms: int) -> dict[str, Any]:
        name, lease = fields.text("name"), fields.whole("lease", least=1)
        fields.end()
        return {"released": await release(self._store(timeout_ms), name, lease=lease)}

    def _store(self, timeout_ms: int) -> KeyValueStore:
        return KeyValueStore(self._node, timeout_ms=timeout_ms)

    def _reading(self, fields: JsonFields, timeout_ms: int) -> AbstractAsyncContextManager[KeyValues]:
        """A read, linearizable unless ``stale`` is true. Errors: UsageError."""
        stale, max_age_ms = fields.flag("stale"), fields.whole_or_none("max_age_ms")
        return self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=timeout_ms)

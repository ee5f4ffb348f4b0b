"""Metrics over HTTP, for Prometheus, and those of a node in its text format.

Invariant: a scrape is answered in one piece on the loop's thread; for a node that is between two steps of the host, so
the values belong together and need no lock. Connections at a time, bytes of a request, and the time from connecting
until the answer is read are all bounded; each answer ends its connection. Whoever can connect can read the metrics: in
the clear that is anybody, and over TLS whoever has a certificate, if that is required.

    GET or HEAD /metrics    200
    another method there    405
    anything else           404, or 400 and 431 for what is no request or too long a one

Names are Kafka's with underscores, after ``pykraft_raft_``. An unknown value is -1 or NaN as in the API; a metric that
is absent there is absent here.

The loop's own metrics are measured once in each period of the driver's watch, so they cost the hot path nothing. Idle
is the time in which the loop's thread used no processor, whatever it waited for. So a loop that is stuck in a blocking
call, or waits for the interpreter, counts as idle; its lag shows it.

Source: the Prometheus text format 0.0.4; RFC 9112; Kafka's ``KafkaRaftMetrics`` (``poll-idle-ratio-avg``).
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from pykraft.host.metrics import HOST_METRICS, STATES, Metric, MetricKind, Metrics, Sensor, TimeRatio, kafkas, ours
from pykraft.process.extras import imported_for
from pykraft.security.contexts import TlsContext
from pykraft.server.binding import serve
from pykraft.server.secured import Addresses, HandshakeServer

DRIVER_METRICS: Final = (
    kafkas(
        "poll-idle-ratio-avg",
        MetricKind.SENSOR,
        "0 to 1",
        "share of the time in which the loop was idle, since it was measured last",
    ),
    ours("event-loop-lag-ms", MetricKind.SENSOR, "ms", "how late the loop ran its latest timer"),
    ours("event-loop-lag-max-ms", MetricKind.SENSOR, "ms", "the longest event-loop-lag-ms"),
    ours("accepted-connections", MetricKind.GAUGE, "connections", "connections that others made to this node"),
    ours("dialed-connections", MetricKind.GAUGE, "connections", "connections that this node made"),
    ours(
        "failed-handshakes-total",
        MetricKind.COUNTER,
        "handshakes",
        "handshakes of TLS and SASL that failed on listeners",
    ),
    ours("certificate-days-left", MetricKind.GAUGE, "days", "until the first certificate of this node expires"),
    ours(
        "certificates-not-taken-up",
        MetricKind.GAUGE,
        "contexts",
        "listeners, and the dials as one, whose changed files (certificates, users, keys, credentials) cannot be used",
    ),
    ours("acls", MetricKind.GAUGE, "rules", "rules of the authorizer"),
    ours("acls-not-taken-up", MetricKind.GAUGE, "files", "changed files of rules that cannot be used"),
)
METRICS: Final = (*HOST_METRICS, *DRIVER_METRICS)
"""All metrics of a node, in the order of the documentation."""


class LoopWatch:
    """How idle and how late a loop is; callers pass times in ms, and for the thread processor time."""

    def __init__(self) -> None:
        self._idle = TimeRatio()
        self._lag = Sensor()
        self._newest_lag_ms = 0.0
        self._last: tuple[float, float] | None = None

    def ticked(self, lag_ms: float, now_ms: float, thread_ms: float) -> None:
        """The watch's timer fired this much too late; ``thread_ms`` is the processor time of the thread so far."""
        self._newest_lag_ms = max(0.0, lag_ms)
        self._lag.record(self._newest_lag_ms, now_ms)
        idle_ms = 0.0
        if self._last is not None:
            last_ms, last_thread_ms = self._last
            idle_ms = max(0.0, now_ms - last_ms - (thread_ms - last_thread_ms))
        self._last = (now_ms, thread_ms)
        self._idle.record(idle_ms, now_ms)

    def read(self, now_ms: float) -> dict[str, int | float | str]:
        """The current values; the idle ratio begins a new interval."""
        longest_ms = self._lag.maximum(now_ms)
        return {
            "poll-idle-ratio-avg": self._idle.measure(),
            "event-loop-lag-ms": self._newest_lag_ms,
            "event-loop-lag-max-ms": longest_ms,
        }


if TYPE_CHECKING:  # an extra: imported when the exporter starts
    from prometheus_client import Metric as Family

CONNECTIONS_MAX: Final = 16
REQUEST_SIZE_BYTES_MAX: Final = 8 * 1024
EXCHANGE_TIMEOUT_S: Final = 5.0
"""From connecting until the answer is read."""
EMPTY: Final[Mapping[Metric, float]] = {}
PREFIX: Final = "pykraft_raft_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r?\n")
_REQUEST_BEGIN: Final = re.compile(rb"[A-Z]")
_REQUEST_END: Final = re.compile(rb"\r?\n\r?\n")
_PATH: Final = b"/metrics"

logger = logging.getLogger("pykraft")


def require_package(wanted_by: str) -> None:
    """Check that the client library is installed, for this property or option. Errors: UsageError when it is not."""
    with imported_for(wanted_by):
        import prometheus_client  # noqa: F401 - only whether it is there


def render(metrics: Metrics, more: Mapping[Metric, float] = EMPTY) -> bytes:
    """These metrics in the text format, without the absent ones, and ``more`` of a program."""
    from prometheus_client import generate_latest

    return generate_latest(_Snapshot(metrics, more if metrics else EMPTY))


class PrometheusEndpoint:
    """Answers scrapes from its creation until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, render: Callable[[], bytes]) -> None:
        """``render`` gives the metrics in the text format; it is called on the loop, once for each scrape."""
        self.loop = loop
        self._render = render
        self._servers: list[asyncio.Server | HandshakeServer] = []
        self._exchanges: set[_Exchange] = set()
        self._is_closed = False

    async def listen(
        self,
        sockets: Sequence[socket.socket],
        tls: TlsContext | None = None,
        *,
        failed: Callable[[str], None] = logger.debug,
        addresses: Addresses | None = None,
    ) -> None:
        """Answer on these; with ``tls`` after a handshake, see `HandshakeServer`."""

        def exchange() -> _Exchange:
            return _Exchange(self)

        for listening in sockets:
            if tls is None:
                self._servers.append(await serve(self.loop, exchange, listening))
            else:
                self._servers.append(HandshakeServer(listening, tls, exchange, failed=failed, addresses=addresses))

    def close(self) -> None:
        """Stop listening and end the open connections."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        for exchange in list(self._exchanges):
            exchange.abort()

    def begun(self, exchange: _Exchange) -> bool:
        """Add a connection; False when there are too many, or it was being accepted when the endpoint closed."""
        # The limit keeps scrapes from using the descriptors that the node needs.
        if self._is_closed or len(self._exchanges) >= CONNECTIONS_MAX:
            return False
        self._exchanges.add(exchange)
        return True

    def ended(self, exchange: _Exchange) -> None:
        self._exchanges.discard(exchange)

    def answer(self, request: bytes) -> bytes:
        """The whole response to the head of a request."""
        line = _REQUEST_LINE.match(request)
        if line is None:
            return _response(HTTPStatus.BAD_REQUEST)
        method, target = line.groups()
        if target.partition(b"?")[0] != _PATH:
            return _response(HTTPStatus.NOT_FOUND)
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, extra="Allow: GET, HEAD\r\n")
        return _response(HTTPStatus.OK, self._render(), content_type=CONTENT_TYPE, is_head=method == b"HEAD")


class _Exchange(asyncio.Protocol):
    """One connection: a request, its answer, the end."""

    def __init__(self, endpoint: PrometheusEndpoint) -> None:
        self._endpoint = endpoint
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        assert self._transport is not None, "only what was begun is ended"
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        if self._endpoint.begun(self):
            self._timer = self._endpoint.loop.call_later(EXCHANGE_TIMEOUT_S, self.abort)
        else:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; bytes after the head of the request are ignored."""
        assert self._transport is not None
        if self._transport.is_closing():  # TLS passes on what comes while an answer is being sent
            return
        self._received += data
        end = _REQUEST_END.search(self._received, 0, REQUEST_SIZE_BYTES_MAX)
        if end is not None:
            self._answer(self._endpoint.answer(bytes(self._received[: end.end()])))
        elif _REQUEST_BEGIN.match(self._received) is None:  # such as the greeting of TLS
            self._answer(_response(HTTPStatus.BAD_REQUEST))
        elif len(self._received) > REQUEST_SIZE_BYTES_MAX:
            self._answer(_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._timer is not None:
            self._timer.cancel()
        self._endpoint.ended(self)

    def _answer(self, response: bytes) -> None:
        assert self._transport is not None
        self._transport.write(response)
        self._transport.close()


class _Snapshot:
    """One reading of all metrics, as a collector for the client library."""

    def __init__(self, metrics: Metrics, more: Mapping[Metric, float]) -> None:
        self._metrics = metrics
        self._more = more

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            if metric.name in self._metrics:
                yield _family(metric, self._metrics[metric.name])
        for metric, value in self._more.items():
            yield _family(metric, value)


def _family(metric: Metric, value: float | str) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, StateSetMetricFamily

    name = PREFIX + metric.name.replace("-", "_")
    text = f"{metric.meaning} ({metric.unit})" if metric.unit else metric.meaning
    match metric.kind:
        case MetricKind.STATE:
            return StateSetMetricFamily(name, text, {state: state == value for state in STATES})
        case MetricKind.TEXT:
            return InfoMetricFamily(name, text, {metric.unit: str(value)})
        case MetricKind.COUNTER:
            return CounterMetricFamily(name, text, float(value))
        case _:
            return GaugeMetricFamily(name, text, float(value))


def _response(
    status: HTTPStatus,
    body: bytes | None = None,
    *,
    content_type: str = "text/plain; charset=utf-8",
    is_head: bool = False,
    extra: str = "",
) -> bytes:
    content = f"{status.value} {status.phrase}: the metrics are at /metrics\n".encode() if body is None else body
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(content)}\r\n{extra}Connection: close\r\n\r\n"
    ).encode()
    return head if is_head else head + content

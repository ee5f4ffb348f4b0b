"""Scrapes over the loopback interface: what is answered, what is rejected, and the limits for a client.

How idle and how late a loop is, with hand-moved clocks; the table of all metrics in code and documentation.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from math import isnan, nan
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykraft.errors import UsageError
from pykraft.host.metrics import SAMPLE_MS, SAMPLES, STATES, Metric, MetricKind, Metrics
from pykraft.security.contexts import Side
from pykraft.server import prometheus
from pykraft.server.binding import listening_sockets, port_of
from pykraft.server.prometheus import (
    CONNECTIONS_MAX,
    EXCHANGE_TIMEOUT_S,
    METRICS,
    REQUEST_SIZE_BYTES_MAX,
    LoopWatch,
    PrometheusEndpoint,
    render,
    require_package,
)
from pykraft.types import Endpoint
from tests.security.credentials import context, properties
from tests.server.manual_loop import FakeTransport
from tests.tidy.repository import ROOT

TIMEOUT_S = 10.0
SOME: Metrics = {"current-state": "follower", "current-epoch": 7, "commit-latency-avg": nan}
GOOD = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


def samples(text: str) -> dict[str, float]:
    """Value by name; of a state the one that holds is its label's value after a colon."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            label = "".join(f":{value}" for value in sample.labels.values())
            found[sample.name + label] = sample.value
    return found


class Client:
    """One connection to an endpoint."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        """Everything until the connection ends, in whatever way."""
        try:
            return await asyncio.wait_for(self.reader.read(), TIMEOUT_S)
        except ConnectionResetError:
            return b""


class Station:
    """An endpoint that serves, and clients of it."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.told = 0
        self.endpoint = PrometheusEndpoint(asyncio.get_running_loop(), self._render)
        self._sockets = listening_sockets(Endpoint(host, 0))
        self._host = host
        self.port = port_of(self._sockets)

    def _render(self) -> bytes:
        self.told += 1
        return render(SOME)

    async def open(self) -> None:
        """Serve."""
        await self.endpoint.listen(self._sockets)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """One connection, closed in the end."""
        reader, writer = await asyncio.open_connection(self._host, self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], str]:
        """Status, headers and body of the answer to this request; the connection ends after it."""
        async with self.client() as client:
            client.writer.write(request)
            answer = (await client.read()).decode()
        head, _, body = answer.partition("\r\n\r\n")
        line, *fields = head.split("\r\n")
        return int(line.split()[1]), dict(field.split(": ", 1) for field in fields), body


@asynccontextmanager
async def on_station(host: str = "127.0.0.1") -> AsyncIterator[Station]:
    """An endpoint within the block."""
    station = Station(host)
    await station.open()
    try:
        yield station
    finally:
        station.endpoint.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_scrape_gets_the_metrics(host: str) -> None:
    async with on_station(host) as station:
        status, headers, body = await station.ask(GOOD)
        assert status == 200
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert int(headers["Content-Length"]) == len(body)
        told = samples(body)
        assert told["pykraft_raft_current_epoch"] == 7
        assert isnan(told["pykraft_raft_commit_latency_avg"])
        assert "pykraft_raft_number_of_observers" not in told


async def test_scrape_over_tls_needs_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    values = properties(tmp_path)
    told: list[str] = []
    station = Station()
    await station.endpoint.listen(station._sockets, context(values, Side.SERVER), failed=told.append)
    try:
        client = context(values, Side.CLIENT).current
        reader, writer = await asyncio.open_connection("127.0.0.1", station.port, ssl=client)
        writer.write(GOOD)
        assert (await Client(reader, writer).read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        async with station.client() as stranger:
            stranger.writer.write(GOOD)
            assert b"HTTP/" not in await stranger.read()
        assert told == ["127.0.0.1: it does not speak TLS"]
        assert station.told == 1
    finally:
        station.endpoint.close()


def test_every_metric_is_rendered_with_its_kind_and_meaning() -> None:
    values: dict[str, int | float | str] = {metric.name: 3 for metric in METRICS}
    values |= {"current-state": "candidate", "current-vote-directory-id": "b8tRS7h4TJ2Vt43Dp85v2A"}
    families = {family.name: family for family in text_string_to_metric_families(render(values).decode())}
    for metric in METRICS:
        name = "pykraft_raft_" + metric.name.replace("-", "_")
        match metric.kind:
            case MetricKind.TEXT:
                family = families.pop(f"{name}_info")
                assert [(sample.labels, sample.value) for sample in family.samples] == [
                    ({"uuid": "b8tRS7h4TJ2Vt43Dp85v2A"}, 1)
                ]
            case MetricKind.STATE:
                family = families.pop(name)
                holds = {sample.labels[name]: sample.value for sample in family.samples}
                assert holds == {state: float(state == "candidate") for state in STATES}
            case MetricKind.COUNTER:
                family = families.pop(name.removesuffix("_total"))
                assert family.type == "counter"
            case _:
                family = families.pop(name)
                assert (family.type, [sample.value for sample in family.samples]) == ("gauge", [3])
        assert metric.meaning in family.documentation
        assert metric.unit in family.documentation
    assert not families


def test_a_node_that_has_ended_tells_nothing() -> None:
    assert render({}) == b""


@pytest.mark.conformance("H61")
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\n\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /else HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", 405),
        (b"get /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", 400),  # ApiVersions
        (b"GET /metrics HTTP/1.1\r\nA: " + b"x" * REQUEST_SIZE_BYTES_MAX, 431),
        (b"GET /metrics HTTP/1.1\r\nA: " + b"x" * REQUEST_SIZE_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_asked_decides_the_status(request_: bytes, status: int) -> None:
    async with on_station() as station:
        found, headers, body = await station.ask(request_)
        assert found == status
        assert headers["Connection"] == "close"
        assert int(headers["Content-Length"]) == len(body)
        assert station.told == (status == 200)
        assert headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


async def test_head_is_the_head_of_get() -> None:
    async with on_station() as station:
        status, headers, body = await station.ask(GOOD.replace(b"GET", b"HEAD"))
        _, expected, content = await station.ask(GOOD)
        assert (status, headers, body) == (200, expected, "")
        assert int(headers["Content-Length"]) == len(content)


async def test_a_request_may_come_in_pieces_and_what_follows_it_is_ignored() -> None:
    async with on_station() as station:
        async with station.client() as client:
            for piece in (GOOD[:3], GOOD[3:-1], GOOD[-1:] + GOOD):
                client.writer.write(piece)
                await client.writer.drain()
            assert (await client.read()).startswith(b"HTTP/1.1 200")
        assert station.told == 1


async def test_one_connection_too_many_is_closed_and_a_place_becomes_free_again() -> None:
    async with on_station() as station, AsyncExitStack() as closing:
        clients = [await closing.enter_async_context(station.client()) for _ in range(CONNECTIONS_MAX + 1)]
        assert await clients[-1].read() == b""
        clients[0].writer.write(GOOD)
        assert (await clients[0].read()).startswith(b"HTTP/1.1 200")
        assert (await station.ask(GOOD))[0] == 200


async def test_who_takes_too_long_to_ask_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "EXCHANGE_TIMEOUT_S", 0.01)
    async with on_station() as station, station.client() as client:
        client.writer.write(b"GET")
        assert await client.read() == b""


async def test_the_end_closes_what_is_under_way_and_listens_no_more() -> None:
    async with on_station() as station:
        async with station.client() as client:
            await station.ask(GOOD)
            station.endpoint.close()
            assert await client.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await station.ask(GOOD)


async def test_who_was_being_accepted_when_all_was_closed_is_closed_too() -> None:
    async with on_station() as station:
        station.endpoint.close()
        late, transport = prometheus._Exchange(station.endpoint), FakeTransport()
        late.connection_made(transport)
        assert transport.is_aborted
        late.connection_lost(None)


async def test_one_request_is_answered_though_more_comes_while_the_answer_is_sent() -> None:
    """asyncio's TLS passes it on until the answer is away, and breaks when it is closed a second time."""
    async with on_station() as station:
        exchange, transport = prometheus._Exchange(station.endpoint), FakeTransport()
        exchange.connection_made(transport)
        for _ in range(3):
            exchange.data_received(GOOD)
        assert len(transport.written) == 1
        exchange.connection_lost(None)


def test_without_the_client_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_package("--here")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"--here needs prometheus-client, .*: pip install 'pykraft\[metrics\]'"):
        require_package("--here")


pytestmark = pytest.mark.conformance(54)


def test_every_metric_has_one_row() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(metric.meaning for metric in METRICS)


def test_a_loop_that_was_never_watched_counts_as_idle() -> None:
    told = LoopWatch().read(0)
    assert (told["poll-idle-ratio-avg"], told["event-loop-lag-ms"]) == (1, 0)
    assert isnan(float(told["event-loop-lag-max-ms"]))


@pytest.mark.conformance(118)
def test_idle_is_what_the_thread_did_not_compute_since_the_last_measurement() -> None:
    watch = LoopWatch()
    watch.ticked(0, now_ms=1_000, thread_ms=700)
    watch.ticked(0, now_ms=1_100, thread_ms=725)
    assert watch.read(1_150)["poll-idle-ratio-avg"] == 0.75
    watch.ticked(0, now_ms=1_200, thread_ms=775)
    assert watch.read(1_250)["poll-idle-ratio-avg"] == 0.5, "the interval ended at the last tick, not at the reading"
    assert watch.read(1_260)["poll-idle-ratio-avg"] == 1


def test_a_clock_of_the_thread_that_runs_ahead_is_no_negative_idleness() -> None:
    watch = LoopWatch()
    watch.ticked(0, now_ms=0, thread_ms=0)
    watch.ticked(0, now_ms=100, thread_ms=101)
    assert watch.read(100)["poll-idle-ratio-avg"] == 0


def test_the_lag_is_the_newest_and_the_longest_of_the_last_minute() -> None:
    watch = LoopWatch()
    watch.ticked(250, now_ms=0, thread_ms=0)
    watch.ticked(-0.5, now_ms=100, thread_ms=1)
    told = watch.read(100)
    assert (told["event-loop-lag-ms"], told["event-loop-lag-max-ms"]) == (0, 250)
    watch.ticked(3, now_ms=60_000, thread_ms=2)
    assert watch.read(60_000)["event-loop-lag-max-ms"] == 3


def table(metrics: Sequence[Metric]) -> str:
    """The table of the page."""
    rows = [("name", "type", "unit", "meaning", "whose"), ("---",) * 5]
    for metric in metrics:
        whose = "ours" if metric.is_ours else "Kafka's"
        rows.append((f"`{metric.name}`", metric.kind.value, metric.unit, metric.meaning, whose))
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def compare_table(mark: str, metrics: Sequence[Metric], *, rewrite: bool) -> None:
    """Compare the table behind this mark of the page, or write it."""
    path = ROOT / "docs" / "metrics.md"
    page = path.read_text()
    head, _, rest = page.partition(f"<!-- {mark} -->\n")
    expected = f"{head}<!-- {mark} -->\n\n{table(metrics)}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if rewrite:
        path.write_text(expected)
    assert path.read_text() == expected


def test_the_page_lists_every_metric_as_the_code_does(request: pytest.FixtureRequest) -> None:
    compare_table("metrics", METRICS, rewrite=request.config.getoption("--rewrite"))


def test_what_the_page_says_in_numbers_is_so() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert f"At most {CONNECTIONS_MAX} scrapes" in page
    assert f"within {EXCHANGE_TIMEOUT_S:.0f} seconds" in page
    assert "pykraft.prometheus.listener=" in page
    assert f"samples of {SAMPLE_MS // 1_000} seconds" in page
    assert SAMPLES == 2

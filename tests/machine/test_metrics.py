"""Metrics of a state machine: what its callers got, what it says of itself, and both in a scrape."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from pykraft.errors import CommandRejectedError, NotAppliedError, OutcomeUnknownError
from pykraft.host.metrics import Metric, MetricKind, ours
from pykraft.local.voters import HOST, free_ports
from pykraft.machine import Replicated
from pykraft.machine import metrics as module
from pykraft.machine.metrics import MACHINE_METRICS
from pykraft.machine.replica import APPLIED, REFUSED, CommandAnswer
from pykraft.recipes.key_values import STORE_METRICS
from pykraft.types import Endpoint
from tests.client.nodes import alone
from tests.machine.counters import Add, Counters, next_turn
from tests.server.test_prometheus import compare_table

TOTALS = ours("counters-sum", MetricKind.GAUGE, "", "the sum of all counters")


class MeasuredCounters(Counters):
    def metrics(self) -> Mapping[Metric, float]:
        return {TOTALS: sum(self.totals.values())}


async def test_commands_are_counted_by_their_ends(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), MeasuredCounters()) as node:
        before = await node.metrics()
        assert isnan(float(before["machine-command-latency-max"]))
        for amount in (1, 2, -9):
            try:
                await node.execute(Add("x", amount))
            except CommandRejectedError:
                assert amount == -9
        waiting = asyncio.ensure_future(node.execute(Add("x", 1)))
        await next_turn()
        assert (await node.metrics())["machine-waiting-calls"] == 1
        await waiting
        found = await node.metrics()
        names = ("machine-rejected-total", "machine-waiting-calls", "machine-sessions", "counters-sum", "current-state")
        assert [found[name] for name in names] == [1, 0, 1, 4, "leader"]
        assert float(found["machine-commands-rate"]) > 0
        assert 0 < float(found["machine-command-latency-avg"]) <= float(found["machine-command-latency-max"])
        assert {metric.name for metric in MACHINE_METRICS} <= set(found)

        now_s = asyncio.get_running_loop().time()
        for verdict in (REFUSED, APPLIED):
            node._measured.answered(now_s - 1.0, CommandAnswer(verdict, b""))
        for error in (NotAppliedError("no leader"), OutcomeUnknownError("late")):
            node._measured.failed(now_s - 3.0, error)
        found = await node.metrics()
        assert float(found["machine-command-latency-max"]) >= 3_000
        assert [found[f"machine-{name}"] for name in ("failed-total", "unknown-total", "waiting-calls")] == [2, 1, 0]


@pytest.mark.parametrize("own_thread", [False, True])
async def test_a_scrape_has_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_thread: bool) -> None:
    monkeypatch.setattr(module, "PUBLISH_INTERVAL_S", 0.005)
    [port] = free_ports(1)
    config = replace(alone(tmp_path), prometheus_listener=Endpoint(HOST, port))
    async with Replicated(config, MeasuredCounters(), own_thread=own_thread) as node:
        await node.execute(Add("x", 3))
        while "pykraft_raft_counters_sum 3.0" not in (text := await scrape(port)):
            pass
    found = dict(re.findall(r"^pykraft_raft_(machine_\w+) (\S+)$", text, re.MULTILINE))
    assert set(found) == {metric.name.replace("-", "_") for metric in MACHINE_METRICS}
    assert found["machine_sessions"] == "1.0"
    assert "# HELP pykraft_raft_machine_rejected_total commands that apply rejected (commands)" in text
    assert "pykraft_raft_current_epoch" in text


async def scrape(port: int) -> str:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return text


def test_the_page_lists_them_as_the_code_does(request: pytest.FixtureRequest) -> None:
    metrics = (*MACHINE_METRICS, *STORE_METRICS)
    assert len({metric.name for metric in metrics}) == len(metrics)
    compare_table("metrics of state machines", metrics, rewrite=request.config.getoption("--rewrite"))

"""Series of a report are short, however long the run was, and never hide the worst."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.spark.pipeline.series import SLICES_MAX, SPELLS_MAX, lags, latencies, leaderships, origin_of, rates
from tests.spark.pipeline.some_runs import at, epoch, run

REPORT = run(seconds=4).report


def test_rates_are_by_second_and_a_pause_is_zero() -> None:
    steps = rates(REPORT, "records")
    assert steps.edges == [0, 1, 2, 3, 4]
    assert steps.values == [1_000, 1_001, 0, 1_003]


def test_a_single_interval_is_a_second() -> None:
    one = replace(REPORT, throughput=REPORT.throughput[:1])
    assert (rates(one, "size_bytes").edges, rates(one, "size_bytes").values) == ([0, 1], [100_000])
    assert rates(replace(REPORT, throughput=[]), "records").values == []


@pytest.mark.parametrize("seconds", [SLICES_MAX + 1, 5_000, 86_400])
def test_a_long_run_has_as_many_records_in_fewer_slices(seconds: int) -> None:
    report = run(seconds=seconds, is_watched=False).report
    steps = rates(report, "records")
    assert len(steps.values) <= SLICES_MAX
    assert steps.edges[-1] == seconds
    lengths = [end - begin for begin, end in zip(steps.edges, steps.edges[1:], strict=False)]
    records = sum(value * length for value, length in zip(steps.values, lengths, strict=True))
    assert records == pytest.approx(sum(row["records"] for row in report.throughput))


def test_the_worst_latency_of_a_slice_stays() -> None:
    report = run(seconds=5_000).report
    report.commit_latency[777]["max_ms"] = 900.0
    found = latencies(report)
    assert max(found["max"][1]) == 900.0
    assert 777.0 in found["max"][0]
    assert all(len(times) == len(values) <= SLICES_MAX for times, values in found.values())
    assert latencies(replace(report, commit_latency=[])) == {"p50": ([], []), "p99": ([], []), "max": ([], [])}


def test_lag_is_by_node_without_what_is_unknown() -> None:
    found = lags(REPORT)
    assert list(found) == [1, 2, 3]
    assert found[3] == ([0.0, 1.0, 2.0], [0, 3, 24])


def test_a_leader_leads_until_the_next_one_begins() -> None:
    report = replace(REPORT, epochs=[epoch(1, 1, 0, 4), epoch(2, 3, 5, 9), epoch(3, 2, 10, 8)])
    found = [(each.leader_id, each.epoch, each.begin_s, each.end_s) for each in leaderships(report)]
    assert found == [(1, 1, 0, 5), (3, 2, 5, 10), (2, 3, 10, 10)]
    assert leaderships(replace(report, epochs=[])) == []


def test_of_very_many_epochs_the_last_ones_are_shown() -> None:
    spells = [epoch(number, 1, number, number + 1) for number in range(SPELLS_MAX + 3)]
    assert leaderships(replace(REPORT, epochs=spells))[0].epoch == 3


def test_time_begins_with_the_first_record_or_leader() -> None:
    assert origin_of(replace(REPORT, epochs=[epoch(1, 1, -2, 4)])) == at(-2)
    assert origin_of(replace(REPORT, epochs=[], throughput=[])) == origin_of(replace(REPORT, epochs=[], throughput=[]))

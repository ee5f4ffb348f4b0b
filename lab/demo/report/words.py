"""The text of a report: the verdict, the checks and their results, the most important numbers.

Pure functions of a `Story`. Invariant: every problem of the result is mentioned, and a check passes only if its number
is right.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from lab.demo.options import DemoOptions
from lab.demo.story import Kill, Story
from pykraft.text.words import counted, ms_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A claim, whether it holds, and what was found."""

    claim: str
    is_met: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryNumber:
    """A number of the summary with its unit and meaning."""

    value: str
    unit: str
    meaning: str


def verdict(story: Story) -> tuple[str, str]:
    """One sentence in two parts; the first is emphasized."""
    if story.result.problems:
        count = len(story.result.problems)
        return "The run failed:", f"{counted(count, 'problem')} found."
    records = (
        f"all {story.result.audit.acknowledged:,} acknowledged records are in the tables exactly once and in order"
    )
    return "Nothing lost, nothing duplicated:", f"{records}{', although the leader was killed' if story.kills else ''}."


def setting(story: Story) -> str:
    """The parameters of the run."""
    options = story.options
    nodes = f"{counted(options.nodes, 'node')}, each a process" if options.nodes > 1 else "One node"
    load = f"{options.throughput:,} records of {options.record_size_bytes:,} bytes per second"
    killed = "".join(f" {_killed(story, kill)}" for kill in story.kills)
    return f"{nodes}; {load} for {story.result.seconds:,.0f} seconds.{killed} {_reading(story)}"


def _reading(story: Story) -> str:
    is_live = story.result.batch_latency_ms is not None
    return "Spark read the log while it grew." if is_live else "Spark began to read when the load was over."


def _killed(story: Story, kill: Kill) -> str:
    """When the kill really was: the first half of the load waits for the first rows in the tables, but not for ever."""
    at_s = story.seconds_since_begin(kill.killed_wall_ms)
    waited = ""
    if at_s > 0.5 * story.options.seconds + 1:
        has_rows = any(batch.ended_wall_ms <= kill.killed_wall_ms for batch in story.batches)
        waited = ", once Spark had the first rows in the tables" if has_rows else ", while Spark still started"
    text = f"After {at_s:,.1f} seconds{waited}, the leader, node {kill.node_id}, was killed with kill -9"
    if kill.restarted_wall_ms is None:
        return f"{text}."
    return f"{text}; {(kill.restarted_wall_ms - kill.killed_wall_ms) / 1_000:,.1f} seconds later it was restarted."


def checks(story: Story) -> Iterator[Check]:
    """All checks."""
    audit, comparison = story.result.audit, story.result.comparison
    yield Check(
        claim="Nothing is lost",
        is_met=audit.missing == 0 and audit.acknowledged > 0,
        found=f"missing from the tables: {audit.missing:,} of {counted(audit.acknowledged, 'acknowledged record')}",
    )
    yield Check(
        claim="Nothing is duplicated",
        is_met=audit.duplicates == 0,
        found=f"{counted(audit.duplicates, 'duplicate')} among {counted(audit.spark_rows, 'row')}",
    )
    yield Check(
        claim="Everything is in order",
        is_met=audit.out_of_order == 0,
        found=f"{counted(audit.out_of_order, 'record')} placed before one that was written earlier",
    )
    yield Check(
        claim="Nothing is made up",
        is_met=audit.strays == 0,
        found=f"{counted(audit.strays, 'row')} that are not so in the log",
    )
    yield Check(
        claim="The tables are complete",
        is_met=audit.spark_rows == audit.committed_records and audit.tables_agree,
        found=f"{counted(audit.spark_rows, 'row')} for {audit.committed_records:,} committed records, "
        f"and the tables {'agree' if audit.tables_agree else 'do not agree'} with each other",
    )
    yield Check(
        claim="All nodes have the same log, with every acknowledged record",
        is_met=comparison.are_identical and not comparison.problems,
        found="identical, byte for byte"
        if comparison.are_identical and not comparison.problems
        else "; ".join(comparison.problems) or "the logs differ",
    )
    if story.kills:
        kill = story.kills[0]
        yield Check(
            claim="Another node took over",
            is_met=audit.leader_epochs > 1,
            found=f"node {kill.node_id} was killed, node {kill.leader_id} acknowledged {kill.failover_ms:,} ms later",
        )


def numbers(story: Story) -> Iterator[SummaryNumber]:
    """The summary."""
    result = story.result
    rate = result.audit.acknowledged / result.seconds if result.seconds else 0.0
    commit, table = result.commit_latency_ms, result.batch_latency_ms
    yield SummaryNumber(value=f"{result.audit.acknowledged:,}", unit="", meaning="records acknowledged")
    yield SummaryNumber(value=f"{rate:,.0f}", unit="per s", meaning="records acknowledged, fail-over included")
    if result.failover_ms is not None:
        yield SummaryNumber(
            value=ms_number(result.failover_ms), unit="ms", meaning="fail-over: kill to next acknowledgement"
        )
    yield SummaryNumber(
        value=ms_number(commit["p50"]), unit="ms", meaning="append to commit, half of the records (p50)"
    )
    yield SummaryNumber(value=ms_number(commit["p99"]), unit="ms", meaning="append to commit, 99 of 100 (p99)")
    if table is not None:
        yield SummaryNumber(
            value=f"{table['p50'] / 1_000:,.2f}", unit="s", meaning="commit to table, half of the records (p50)"
        )
    yield SummaryNumber(value=f"{result.audit.leader_epochs:,}", unit="", meaning="leaders in the log (epochs)")


def command(options: DemoOptions) -> str:
    """The command that repeats the run."""
    words = [
        *("bin/demo", "--nodes", str(options.nodes), "--seconds", f"{options.seconds:g}"),
        *("--throughput", str(options.throughput), "--record-size", str(options.record_size_bytes)),
        *(["--kill-leader"] if options.kill_leader else []),
        *("--report", "report"),
    ]
    return shlex.join(words)

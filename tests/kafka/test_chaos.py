"""Real faults in a quorum with one Kafka voter: nothing acknowledged is lost, and its log is identical to ours."""

from pathlib import Path

import pytest

from lab.chaos.ground import ChaosOptions
from lab.chaos.plan import FaultKind
from lab.chaos.run import Done, run_chaos
from lab.kafka.java import Kafka

KINDS = (FaultKind.KILL, FaultKind.FREEZE, FaultKind.RESETS)


class Printer:
    """A watcher whose words are seen when the test fails."""

    def passing(self, text: str, elapsed_s: float) -> None:
        print(f"{elapsed_s:.1f} s {text}")

    def done(self, fault: Done) -> None:
        print(fault)


@pytest.mark.kafka
@pytest.mark.timeout(240)
def test_a_java_voter_in_chaos(kafka: Kafka, tmp_path: Path) -> None:
    options = ChaosOptions(seed=3, seconds=200, kinds=KINDS, episodes_max=len(KINDS), kafka=kafka)
    outcome = run_chaos(options, tmp_path, Printer())
    assert outcome.verdict.is_clean
    assert {fault.kind for fault in outcome.faults} == {kind.value for kind in KINDS}

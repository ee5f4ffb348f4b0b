"""A program's own test: a good state machine passes, and a bad one is told so that it can be repeated."""

from functools import partial
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.machine.testing import SimulationFailedError, simulate, users
from pykraft.machine.testing.recorded import Reference
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import DrawnCommands
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.machine.counters import Counters
from tests.machine.testing.bugs import BUGS, OF_ONE_PROCESS, DiceCounters, ForgetfulCounters, draw
from tests.machine.testing.search import noticed


@pytest.mark.sim
def test_counters_pass_in_all_worlds() -> None:
    report = simulate(Counters, draw, seeds=range(10))
    assert report.worlds == 10
    assert report.commands > 300
    assert report.faults > 30
    assert report.replayed > 300


@pytest.mark.sim
@pytest.mark.parametrize("machine", OF_ONE_PROCESS)
def test_what_differs_between_processes_is_found(machine: type[Counters]) -> None:
    with pytest.raises(SimulationFailedError, match="EqualProcesses: "):
        simulate(machine, draw, seeds=range(3))


@pytest.mark.sim
def test_a_machine_that_no_other_process_can_make_is_simulated_without_one() -> None:
    class Local(Counters):
        pass

    assert simulate(Local, draw, seeds=range(1)).replayed == 0


@pytest.mark.sim
def test_a_failure_is_made_smaller_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "failure.html"
    with pytest.raises(SimulationFailedError) as raised:
        simulate(ForgetfulCounters, draw, seeds=range(20), page=page)
    text = str(raised.value)
    assert "EqualReplicas: " in text
    assert f"repeat it with simulate(..., seeds=[{raised.value.failure.seed}])" in text
    assert "EqualReplicas" in page.read_text()


def test_no_worlds_and_an_unknown_scenario_are_refused() -> None:
    with pytest.raises(UsageError, match="no world"):
        simulate(Counters, draw, seeds=())
    with pytest.raises(UsageError, match="either commands or a program"):
        simulate(Counters, seeds=(1,))
    with pytest.raises(UsageError, match="everything"):
        simulate(Counters, draw, seeds=(1,), faults="everything")


COMMANDS = partial(DrawnCommands, draw)


@pytest.mark.sim
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    found = noticed(BUGS[name], BUGS[name].seed)
    assert found is not None
    assert found[0] == BUGS[name].noticed_by, found


@pytest.mark.sim
@pytest.mark.parametrize("seed", sorted({bug.seed for bug in BUGS.values()}))
def test_without_the_bug_the_same_world_passes(seed: int) -> None:
    outcome = run_machines(Counters, COMMANDS, seed, scenario=scenario_of("all"))
    assert isinstance(outcome, Outcome), outcome
    again = run_machines(Counters, COMMANDS, seed, scenario=scenario_of("all"))
    assert isinstance(again, Outcome)
    assert again.digest == outcome.digest  # a failure can be repeated


@pytest.mark.sim
def test_a_disk_error_while_a_snapshot_is_loaded_ends_the_process_and_not_the_world() -> None:
    outcome = run_machines(Counters, COMMANDS, 23, scenario=scenario_of("all"), check_every=20)
    assert isinstance(outcome, Outcome), outcome


@pytest.mark.sim
@pytest.mark.parametrize("check_every", [1, 7])
def test_nodes_notice_by_themselves_that_they_have_parted(monkeypatch: pytest.MonkeyPatch, check_every: int) -> None:
    # The oracle of the simulator, which compares all replicas after each command, looks away.
    monkeypatch.setattr(Reference, "met", lambda *_: None)
    monkeypatch.setattr(users, "judge", lambda *_: None)
    failure = run_machines(DiceCounters, COMMANDS, 0, scenario=scenario_of("all"), check_every=check_every)
    assert isinstance(failure, Failure)
    assert "ReplicasPartedError: the replicas have parted: the command at offset" in failure.reason

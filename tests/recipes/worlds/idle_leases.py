"""Worlds in which leases wait for their end while nobody writes, and leaders change all the time.

A lease never ends early; here it must not last much longer than its time either, however many leaders there are. The
time that counts is that in which a majority follows one leader. Each change of the leader may cost a little, and one to
a process that has just started may cost what the former leader had not yet written.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Final, cast

from pykraft.errors import PykraftError
from pykraft.machine.own_records import TICKS_OF_A_SESSION
from pykraft.machine.replicated import Replicated
from pykraft.machine.testing.recorded import AppliedCall, CallHistory, digest_of_records
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.users import SESSION_TIMEOUT_MS
from pykraft.machine.testing.workload import MachineWorkload, ProcessSeat
from pykraft.recipes import KeyValues, KeyValueStore
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.node import Process
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.scenario import ClusterSettings, Pace, Scenario
from tests.recipes.worlds.log_rules import LogRules

LEASE_MS: Final = 4_000
"""Longer than a session lives without a call, so that nothing but the lease waits for the time."""
BETWEEN_MS: Final = 6_000
SAMPLE_US: Final = 20_000
SILENCE_US: Final = SESSION_TIMEOUT_MS * 1_000 // TICKS_OF_A_SESSION
CHANGE_US: Final = 2 * SAMPLE_US
"""What a change of the leader may cost: writing and committing a record, and a sample that counted in vain."""
ROOM_US: Final = 1_000_000
"""A tick that could not be committed is written again."""


class IdleLeases(MachineWorkload):
    """See `pykraft.machine.testing.workload.MachineWorkload`."""

    def begin(self, facts: Facts, history: CallHistory) -> None:
        """See `MachineWorkload`."""
        self._facts = facts
        self._rules = LogRules(1_000, digest_of_records)
        self._led_us = 0
        """For so long a majority has followed a leader, less what changes may have cost."""
        self._opened_us: dict[int, int] = {}
        self._leader: Process | None = None
        self._first_seen_us: dict[int, int] = {}
        history.reference.on_new = self._applied
        facts.clock.after(SAMPLE_US, self._sample)

    async def run(self, seat: ProcessSeat) -> None:
        """See `MachineWorkload`."""
        store = KeyValueStore(cast("Replicated[KeyValues]", seat.node), timeout_ms=900)
        while True:
            with suppress(PykraftError):
                lease = await store.grant_lease(LEASE_MS)
                await store.put(f"alive/{seat.machine.node_id}", "", lease=lease)
            await seat.pause(2 * BETWEEN_MS)

    def _applied(self, call: AppliedCall) -> None:
        self._rules.applied(call, self._facts.clock.now_us)
        for lease in self._rules.model.leases:
            self._opened_us.setdefault(lease, self._led_us)

    def _sample(self) -> None:
        self._facts.clock.after(SAMPLE_US, self._sample)
        now_us, leader = self._facts.clock.now_us, self._facts.newest_leader()
        running = [node.process for node in self._facts.nodes.values() if node.process is not None]
        for process in running:
            self._first_seen_us.setdefault(id(process), now_us)
        if leader is None:
            return
        if leader is not self._leader:
            is_young = now_us - self._first_seen_us[id(leader)] < 2 * SILENCE_US
            self._led_us -= CHANGE_US + is_young * SILENCE_US
            self._leader = leader
            return
        status = leader.host.status
        followers = [
            one for one in self._facts.voters() if one.host is not None and one.host.status.epoch == status.epoch
        ]
        if 2 * len(followers) > len(self._facts.voters()):
            self._led_us += SAMPLE_US
        for lease in self._rules.model.leases:
            lived_us = self._led_us - self._opened_us[lease]
            if lived_us > LEASE_MS * 1_000 + ROOM_US:
                seen = f"lease {lease} of {LEASE_MS} ms is there after {lived_us // 1_000} ms under leaders"
                raise ViolationError("LeaseEndsInTime", seen)


def idle_scenario() -> Scenario:
    """Leaders that resign, hand over, leave and are killed, every half second or so."""
    scenario = scenario_of("processes")
    return replace(
        scenario,
        cluster=ClusterSettings(voters=(3, 3, 5), observers=(0,)),
        # Nobody writes for twice `BETWEEN_MS`, so what must be committed in the end takes longer.
        course=replace(scenario.course, faults_us=15_000_000, heal_us=40_000_000),
        pace=replace(Pace(), kind_probability=1.0, period_us_min=100_000, period_us_max=(400_000, 800_000)),
        faults={"transfer": 3.0, "resign": 2.0, "shutdown": 1.0, "kill": 1.0},
    )


def run_idle_leases(seed: int) -> Outcome | Failure:
    """Run one world."""
    return run_machines(KeyValues, IdleLeases, seed, scenario=idle_scenario())

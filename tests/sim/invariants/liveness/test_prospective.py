"""A node that asks for pre-votes in vain for too long, after the faults, is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.prospective import NoLastingProspective
from tests.sim.invariants.fakes import BEFORE, node, view, world

ASKING = view("prospective")


def test_it_is_found_and_a_pause_without_a_leader_does_not_help() -> None:
    made = NoLastingProspective(world())
    made.faults_ended()
    made.after_event(node(), ASKING)
    made.changed(node(), ASKING, view("unattached"))
    made.facts.clock.now_us = 5_000_000
    made.after_event(node(), ASKING)
    made.facts.clock.now_us = 5_000_001
    with pytest.raises(ViolationError, match="has asked for pre-votes in vain for 5000001 us"):
        made.after_event(node(), ASKING)


def test_with_a_leader_or_a_candidacy_time_begins_anew_and_faults_excuse_all() -> None:
    made = NoLastingProspective(world())
    made.after_event(node(), ASKING)
    made.facts.clock.now_us = 9_000_000
    made.faults_ended()
    made.after_event(node(), ASKING)
    made.changed(node(), ASKING, view("candidate"))
    made.facts.clock.now_us = 18_000_000
    made.after_event(node(), ASKING)
    made.changed(node(), ASKING, BEFORE)
    made.facts.clock.now_us = 36_000_000
    made.after_event(node(), view("follower"))

"""Members of groups find the leader, share a partition, pass it on, and go on after their leader."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.errors import ErrorCode
from pykraft.sim.clients.members import SimulatedGroupMember
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import GroupCommit, GroupRead, Ownership
from pykraft.sim.invariants.groups import CommittedOffsetsStay, FormerOwnersAreFenced, OneMemberOwns
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import Course, GroupSettings
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_until

CALM = GroupSettings(
    count=(1,),
    members=(2,),
    static_probability=0,
    impatience=0,
    crash_probability=0,
    leave_probability=0,
    unsubscribe_probability=0,
    pause_probability=0,
)
PROTOCOLS = pytest.mark.parametrize("classic", [0, 1])


class Listens(Invariant):
    """Keeps what members were told."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.owned: list[Ownership] = []
        self.reads: list[int] = []
        self.commits: list[GroupCommit] = []

    def group_owned(self, owned: Ownership) -> None:
        """Keep it."""
        self.owned.append(owned)

    def group_read(self, read: GroupRead) -> None:
        """Keep it."""
        if read.offset is not None:
            self.reads.append(read.offset)

    def group_committed(self, commit: GroupCommit) -> None:
        """Keep it."""
        if commit.error == ErrorCode.NONE:
            self.commits.append(commit)


def a_group(classic: int, **changes: object) -> tuple[World, list[SimulatedGroupMember], Listens]:
    """A world with a leader and two members that come to it."""
    settings = replace(CALM, classic_probability=classic, **changes)  # type: ignore[arg-type]
    scenario = replace(THREE, groups=settings, course=Course(faults_us=500_000))
    oracles = [Listens, CommittedOffsetsStay, OneMemberOwns, FormerOwnersAreFenced]
    world, _ = led(World(SEED_OF_THREE, scenario=scenario, oracles=oracles))
    for member in world.others.members:
        member.begin()
    [found, *_] = world.watch.oracles
    assert isinstance(found, Listens)
    return world, world.others.members, found


def both_joined(members: list[SimulatedGroupMember]) -> Callable[[], bool]:
    return lambda: all(each._is_joined for each in members)


@PROTOCOLS
def test_one_of_two_members_reads_and_commits(classic: int) -> None:
    world, members, found = a_group(classic)
    assert not world.others.are_served
    run_until(world, both_joined(members))
    run_until(world, lambda: world.others.are_served and len(found.commits) > 20)
    assert len({each.member for each in found.commits[-5:]}) == 1
    offsets = [each.offset for each in found.commits]
    assert offsets == sorted(offsets)
    assert found.reads[0] == 0


@PROTOCOLS
def test_a_group_goes_on_after_its_leader(classic: int) -> None:
    world, members, found = a_group(classic)
    run_until(world, both_joined(members))
    run_until(world, lambda: len(found.commits) > 5)
    leader = world.facts.newest_leader()
    assert leader is not None
    generation, commits = found.owned[-1].generation, len(found.commits)
    world.nodes[leader.node_id].kill()
    run_until(world, lambda: len(found.commits) > commits + 5)
    assert found.owned[-1].generation > generation
    assert found.reads[-1] >= found.commits[commits - 1].offset


@PROTOCOLS
@pytest.mark.parametrize("change", [{"crash_probability": 0.03}, {"leave_probability": 0.03}])
def test_a_partition_is_passed_on(classic: int, change: dict[str, float]) -> None:
    world, _, found = a_group(classic, **change)
    run_until(world, lambda: len({each.member.partition(".")[0] for each in found.owned}) == 2, limit_us=30_000_000)


@PROTOCOLS
@pytest.mark.parametrize(
    "change", [{"pause_probability": 0.05}, {"crash_probability": 0.02, "impatience": 0.1}, {"leave_probability": 0.03}]
)
def test_static_members_come_back(classic: int, change: dict[str, float]) -> None:
    world, members, found = a_group(classic, static_probability=1, **change)
    run_until(world, lambda: len(found.commits) > 20 and any(each._life > 1 for each in members), limit_us=30_000_000)
    assert {each.member for each in found.owned} <= {"instance 0", "instance 1"}


def test_a_member_of_kip_848_gives_its_topic_up() -> None:
    world, _, found = a_group(0, unsubscribe_probability=0.2)
    run_until(world, lambda: len({each.member for each in found.owned}) == 2, limit_us=30_000_000)


def test_a_member_gets_no_unknown_error() -> None:
    _, [member, _], _ = a_group(1)
    with pytest.raises(AssertionError, match="a member gets UNSUPPORTED_VERSION"):
        member._is_refused(ErrorCode.UNSUPPORTED_VERSION)

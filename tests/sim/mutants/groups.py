"""Bugs in what a node knows of consumer groups and their members, and in what it tells them."""

from typing import Any

from pykraft.errors import ErrorCode
from pykraft.host.groups.classic_groups import ClassicGroups
from pykraft.host.groups.consumer_groups import ConsumerGroups
from pykraft.host.groups.group_log import GroupLog
from pykraft.host.groups.group_requests import GroupRequests
from pykraft.host.groups.group_table import GroupTable, changed_group
from tests.sim.mutants.patch import Patch, bug


@bug("KIP-62 (fencing)", "groups")
def former_members_may_commit(patch: Patch) -> None:
    """Any member may commit, also one that was away and whose partition has another owner by now."""
    patch.setattr(GroupRequests, "_commit_problem", lambda self, body, version: ErrorCode.NONE)


@bug("KIP-62 (fencing)", "groups")
def old_generations_may_commit(patch: Patch) -> None:
    """A member of the classic protocol may commit in a generation that is over."""
    check = ClassicGroups.check

    def any_generation(self: Any, group: Any, body: Any, generation: Any) -> ErrorCode:
        del generation
        return check(self, group, body, None)

    patch.setattr(ClassicGroups, "check", any_generation)


@bug("ADR 231 (generations are in the log)", "groups")
def generations_begin_anew_with_each_leader(patch: Patch) -> None:
    """A generation is given to its members and not written, so the next leader uses its number again."""
    write = GroupLog.write

    def without_generations(self: Any, value: bytes, then: Any) -> None:
        if b"consumer" in value:
            then(ErrorCode.NONE)
        else:
            write(self, value, then)

    patch.setattr(GroupLog, "write", without_generations)


@bug("Kafka's CoordinatorRuntime, which answers when the high watermark passes", "groups")
def commits_are_answered_before_they_are_committed(patch: Patch) -> None:
    """A commit of a group is acknowledged when it is on its way to the log, and is lost with the leader."""
    write = GroupLog.write

    def at_once(self: Any, value: bytes, then: Any) -> None:
        write(self, value, lambda _: None)
        then(ErrorCode.NONE)

    patch.setattr(GroupLog, "write", at_once)


@bug("Kafka's COORDINATOR_LOAD_IN_PROGRESS", "groups")
def new_leaders_answer_from_an_old_state(patch: Patch) -> None:
    """A new leader tells offsets before it has applied what was committed before its epoch."""
    loaded = property(lambda self: self._status().leads and self._status().high_watermark is not None)
    patch.setattr(GroupLog, "is_loaded", loaded)


@bug("ADR 230", "groups,idle_groups")
def snapshots_count_without_an_image(patch: Patch) -> None:
    """A snapshot replaces the batches of groups, and no image of the groups' state follows it."""
    patch.setattr(GroupLog, "hold", lambda self, end_offset, then: then())


@bug("ours", "groups")
def images_have_no_offsets(patch: Patch) -> None:
    """An image of the groups has their generations, but not their offsets."""

    def without_offsets(self: Any) -> Any:
        for group_id, group in self.groups.items():
            yield changed_group(group_id, group)

    patch.setattr(GroupTable, "image", without_offsets)


@bug("ours", "groups")
def starts_do_not_read_groups(patch: Patch) -> None:
    """A node that starts listens for groups from the next batch on, as if none was in its log."""
    begin = GroupLog.__init__

    def without_past(self: Any, *parts: Any, first_offset: Any) -> None:
        del first_offset
        begin(self, *parts, first_offset=None)

    patch.setattr(GroupLog, "__init__", without_past)


@bug("KIP-62 (session.timeout.ms)", "groups")
def silent_members_stay(patch: Patch) -> None:
    """A member that crashed keeps its partition."""
    patch.setattr(ClassicGroups, "_renew", lambda self, member: setattr(member, "deadline_ms", 2**62))
    patch.setattr(ConsumerGroups, "_renew", lambda self, group, member: setattr(member, "deadline_ms", 2**62))


@bug("KIP-848 (STALE_MEMBER_EPOCH)", "groups")
def epochs_of_members_do_not_matter(patch: Patch) -> None:
    """Whoever is, or was, a member of a group of KIP-848 may commit."""
    patch.setattr(ConsumerGroups, "check", lambda self, group, member_id, epoch: ErrorCode.NONE)


@bug("Kafka's ClassicGroup (the assignment is each member's own)", "groups")
def each_member_gets_the_whole_assignment(patch: Patch) -> None:
    """All members of a generation get what its leader gave to one of them."""
    write = ClassicGroups._write_generation

    def for_all(self: Any, group: Any, assignments: Any) -> None:
        most = max(assignments.values(), default=b"")
        write(self, group, dict.fromkeys(group.members, most))

    patch.setattr(ClassicGroups, "_write_generation", for_all)

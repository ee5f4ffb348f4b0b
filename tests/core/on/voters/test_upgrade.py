"""The upgrade of kraft.version; the scenario ``kraft_version_upgrade`` tells the story."""

import pytest

from pykraft.core import messages
from pykraft.core.effects import AppendBatches, CompletePendingRequest, Effect, Reply
from pykraft.core.events import UpgradeRequested
from pykraft.core.leader.pending import Update, Upgrade
from pykraft.core.messages import ChangeVoterResponse, UpdateFeaturesRequest
from pykraft.core.on.voters.upgrade import on_upgrade_requested
from pykraft.core.on.voters.voter_changes import end_change
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode, NotLeaderError, UsageError
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, NodeId, Offset, ReplicaKey, VersionRange, Voter, VoterSet
from tests.core.on.voters.test_voter_changes import behind, dynamic
from tests.core.replicas import NOW, ask, directory, done, follower, key, kinds, leader, listeners, only, replica


def voter(node_id: int, *, level_max: int = 1, is_known: bool = True) -> Voter:
    known = key(node_id)
    return Voter(
        key=known if is_known else ReplicaKey(known.id),
        listeners=listeners(node_id),
        kraft_version=VersionRange(0, level_max),
    )


def leader_that_knows(*voters: Voter, high_watermark: int | None = 11) -> Replica:
    made = replica(leader(high_watermark=high_watermark))
    assert isinstance(made.state, Leader)
    made.state.volatile_voters = VoterSet.of(voters or map(voter, (1, 2, 3)))
    return made


def update() -> Update:
    """Voter 2 is being asked at its new endpoint."""
    return Update(request_id=1, listener="CONTROLLER", voter=voter(2), deadline_ms=NOW.mono_ms + 9)


def told_of(change: Update) -> Replica:
    made = leader_that_knows()
    assert isinstance(made.state, Leader)
    made.state.change = change
    return made


def told_of_another_directory() -> Replica:
    """What was reported in the name of voter 2 is not the directory from which it fetches."""
    made = leader_that_knows()
    assert isinstance(made.state, Leader)
    made.state.progress.of(key(2))
    made.state.progress.voters[NodeId(2)].directory_id = directory(9)
    return made


def upgraded(
    made: Replica, *, epoch: int = 5, version: int = 1, validate_only: bool = False
) -> tuple[Exception | None, bool]:
    event = UpgradeRequested(handle=3, epoch=Epoch(epoch), version=version, validate_only=validate_only)
    on_upgrade_requested(made, event, NOW)
    found = done(made)
    answer = only(found, CompletePendingRequest)
    assert answer.handle == 3
    return answer.error, any(isinstance(effect, AppendBatches) for effect in found)


@pytest.mark.conformance(137)
def test_level_and_voters_are_one_batch() -> None:
    made = leader_that_knows()
    assert upgraded(made, validate_only=True) == (None, False)
    event = UpgradeRequested(handle=3, epoch=Epoch(5), version=1)
    on_upgrade_requested(made, event, NOW)
    (batch,) = only(done(made), AppendBatches).batches
    assert batch.control == (KRaftVersion(1), KRaftVoters(VoterSet.of(map(voter, (1, 2, 3)))))
    assert (made.kraft_version, made.voter_history.voters_offset) == (1, 11)
    assert upgraded(made) == (None, False), "it is there already"


@pytest.mark.conformance(93, 137)
@pytest.mark.parametrize(
    ("made", "epoch", "version", "kind", "text"),
    [
        (replica(follower()), 5, 1, NotLeaderError, "2"),
        (replica(), 5, 1, NotLeaderError, ""),
        (leader_that_knows(), 4, 1, NotLeaderError, ""),
        (leader_that_knows(), 6, 1, UsageError, "has not begun"),
        (leader_that_knows(), 5, 2, UsageError, "supports kraft.version 0 to 1, not 2"),
        (leader_that_knows(voter(1), voter(2, level_max=0)), 5, 1, UsageError, "voter 2 supports kraft.version 0 to 0"),
        (
            leader_that_knows(voter(1), voter(2, is_known=False)),
            5,
            1,
            UsageError,
            "voter 2 has not reported its directory id",
        ),
        (told_of_another_directory(), 5, 1, UsageError, "was reported in its name"),
        (told_of(update()), 5, 1, UsageError, "a voter reports its endpoints"),
        (leader_that_knows(high_watermark=None), 5, 1, UsageError, "nothing of this epoch is committed"),
        (dynamic(), 5, 0, UsageError, "cannot go back"),
        (dynamic(), 5, 2, UsageError, "the leader supports kraft.version up to 1, not 2"),
    ],
)
def test_what_is_refused(made: Replica, epoch: int, version: int, kind: type[Exception], text: str) -> None:
    error, is_written = upgraded(made, epoch=epoch, version=version)
    assert isinstance(error, kind)
    assert text in str(error)
    assert not is_written


def asked(made: Replica, level: int = 1, *, validate_only: bool = False) -> list[Effect]:
    return ask(made, UpdateFeaturesRequest(kraft_version=level, validate_only=validate_only))


def answer_of(found: list[Effect]) -> tuple[int, str | None]:
    message = only(found, Reply).message
    assert isinstance(message, ChangeVoterResponse)
    return message.error, message.error_message


def test_an_operator_hears_of_it_when_it_is_committed() -> None:
    made = leader_that_knows()
    assert "Reply" not in kinds(asked(made))
    state = made.state
    assert isinstance(state, Leader)
    assert state.change == Upgrade(request_id=7, deadline_ms=NOW.mono_ms + 2_000, offset=Offset(10))
    assert answer_of(ask(made, messages.RemoveVoterRequest(voter=key(3))))[0] == ErrorCode.REQUEST_TIMED_OUT
    assert answer_of(asked(made))[0] == ErrorCode.REQUEST_TIMED_OUT, "the level is there, and in doubt"
    state.high_watermark = Offset(12)
    end_change(made, state, NOW)
    assert answer_of(done(made)) == (ErrorCode.NONE, None)
    assert answer_of(asked(made)) == (ErrorCode.NONE, None), "it is there already"


def test_a_dry_run_writes_nothing() -> None:
    made = leader_that_knows()
    assert answer_of(asked(made, validate_only=True)) == (ErrorCode.NONE, None)
    assert (made.kraft_version, made.log.end_offset) == (0, 10)


@pytest.mark.parametrize(
    ("made", "level", "error", "text"),
    [
        (replica(follower()), 1, ErrorCode.NOT_CONTROLLER, "this node does not lead"),
        (leader_that_knows(), 2, ErrorCode.INVALID_UPDATE_VERSION, "voter 1 supports kraft.version 0 to 1, not 2"),
        (dynamic(), 0, ErrorCode.INVALID_UPDATE_VERSION, "kraft.version is 1 and cannot go back to 0"),
        (dynamic(), 2, ErrorCode.INVALID_UPDATE_VERSION, "the leader supports kraft.version up to 1, not 2"),
    ],
)
def test_what_an_operator_is_told(made: Replica, level: int, error: ErrorCode, text: str) -> None:
    assert answer_of(asked(made, level)) == (error, text)


def test_a_backlog_is_appended_first() -> None:
    error, is_appended = upgraded(behind(leader_that_knows()))
    assert isinstance(error, UsageError)
    assert not is_appended

"""An unproven replica asks the other voters whether it may take part, and when it may.

It cannot know what its voter promised before the directory was emptied: votes, acknowledged records, epochs. It asks
every other voter for a pre-vote for an empty log, in its present epoch, and takes part

(a) when all of them grant: everybody's log is empty, so nothing was ever committed, and whoever may still use an old
    vote of this voter has an epoch that is not higher. From then on it votes in later epochs only;
(b) when so many deny, which tells their epoch, that every majority with this replica contains one of them, and its log
    holds whatever it may have acknowledged. In the epoch that all others told that is all which the leader had when
    they had told it; in a later epoch, whose leader was elected without this replica, one record of it is enough;
(c) when an operator formatted the directory: then it is not unproven at all.

A replica with a directory id that nobody can know needs no proof once the voters are known not to include it.

Source: ours (ADR 022, with the argument); KAFKA-14077; Raft dissertation §11.2 (a server that lost its state).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pykraft.core.effects import NoteProof, Report
from pykraft.core.messages import FetchResponse, VoteRequest
from pykraft.core.on.asking import send_to_voter, voter_key
from pykraft.core.proof import NO_EPOCH, Survey
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Unattached
from pykraft.types import EPOCH_ZERO, Epoch, Instant, NodeId, Offset, OffsetAndEpoch

ROUNDS_PER_ELECTION_TIMEOUT: Final = 4
"""How often voters are asked that have not told yet."""
EMPTY_LOG: Final = OffsetAndEpoch(Offset(0), EPOCH_ZERO)


def settle_proof(replica: Replica, now: Instant) -> None:
    """Begin the survey anew where another epoch or another voter set makes it void; end it where nothing is missing.

    Effects: what `_prove` adds.
    """
    survey = replica.survey
    if survey is None or not len(replica.voters):
        return  # it may be a voter, and does not know yet whom to ask
    if survey.has_fresh_id and not replica.is_voter:
        _prove(replica, NO_EPOCH, now)
        return
    others = frozenset(replica.voters.ids) - {replica.local.id}
    if others != survey.others:
        survey = Survey(has_fresh_id=survey.has_fresh_id, others=others, epoch=replica.epoch)
    elif survey.epoch != replica.epoch:
        survey = Survey(
            has_fresh_id=survey.has_fresh_id,
            others=others,
            epoch=replica.epoch,
            blocked_epoch=survey.blocked_epoch,
            has_old_voter=survey.has_old_voter,
        )
    replica.survey = survey
    if survey.are_all_empty and (replica.log.end == EMPTY_LOG or not others):
        _prove(replica, survey.epoch, now)


def ask_others(replica: Replica, now: Instant) -> None:
    """Ask each voter that has not told, once a round.

    Effects: Send; Report when it waits for others than before.
    """
    survey = replica.survey
    if survey is None or not survey.unheard or replica.is_shutting_down:
        return
    if survey.round_deadline_ms is None or survey.round_deadline_ms <= now.mono_ms:
        is_first = survey.round_deadline_ms is None
        deadline_ms = now.mono_ms + max(1, replica.config.election_timeout_ms // ROUNDS_PER_ELECTION_TIMEOUT)
        survey = replace(survey, asked=frozenset(), round_deadline_ms=deadline_ms)
        if not is_first:
            survey = _report(replica, survey)
    assert replica.local.key is not None
    for node_id in sorted(survey.unheard - survey.asked):
        message = VoteRequest(
            epoch=survey.epoch,
            candidate=replica.local.key,
            voter=voter_key(replica, node_id),
            last=EMPTY_LOG,
            pre_vote=True,
        )
        if send_to_voter(replica, node_id, message, now, is_aside=True):
            survey = replace(survey, asked=survey.asked | {node_id})
    replica.survey = survey


def survey_deadline_ms(replica: Replica) -> int | None:
    """When the next round of questions begins (mono ms); None without one."""
    survey = replica.survey
    return None if survey is None or not survey.unheard or replica.is_shutting_down else survey.round_deadline_ms


def on_survey_answer(replica: Replica, voter_id: NodeId, *, granted: bool) -> None:
    """A voter answered in the present epoch, without an error: its log is empty, or it has told its epoch."""
    survey = replica.survey
    if survey is None or voter_id not in survey.others or survey.epoch != replica.epoch:
        return
    alone = frozenset({voter_id})
    if granted:
        replica.survey = replace(survey, empty=survey.empty | alone)
        return
    survey = replace(survey, told=survey.told | alone, empty=survey.empty - alone)
    if survey.blocked_epoch is None and survey.is_blocking:
        survey = replace(survey, blocked_epoch=survey.epoch)
    replica.survey = survey


def on_survey_unsupported(replica: Replica) -> None:
    """A voter without pre-votes tells nothing, and its own epochs have no bound that the others know (ADR 022)."""
    if replica.survey is not None:
        replica.survey = replace(replica.survey, has_old_voter=True)


def on_probe_answer(replica: Replica, correlation_id: int, message: FetchResponse) -> bool:
    """Note where the leader's log ends, if this answers the Fetch that asked for it; False when it does not."""
    survey = replica.survey
    if survey is None or survey.probe != correlation_id:
        return False
    survey, diverging = replace(survey, is_probed=True), message.diverging
    if diverging is not None and diverging.epoch == survey.epoch == replica.epoch:
        survey = replace(survey, until_offset=diverging.offset)
    replica.survey = survey
    return True


def prove_if_caught_up(replica: Replica, answer: FetchResponse, now: Instant) -> None:
    """Take part if the leader's answer, not diverging and not yet appended, shows that the log holds enough (b).

    Effects: what `_prove` adds.
    """
    survey, log = replica.survey, replica.log
    if survey is None or log.last_epoch < replica.epoch or log.flushed_end_offset < log.end_offset:
        return
    blocked = None if survey.has_old_voter else survey.blocked_epoch
    is_newer = blocked is not None and replica.epoch > blocked
    is_beyond = survey.until_offset is not None and log.end_offset >= survey.until_offset
    is_all = not answer.batches and answer.invalid is None
    if is_newer or (survey.has_all_told and survey.epoch == replica.epoch and (is_beyond or is_all)):
        _prove(replica, replica.epoch, now)


def _prove(replica: Replica, votes_above: Epoch, now: Instant) -> None:
    """Be a voter like any other from now on, but for votes in epochs that are not later than this.

    Who waited longer than a timeout begins a new one: others that waited for the same would campaign at once as well.

    Effects: NoteProof, which a Fetch with the own id and any later vote wait for; Report.
    """
    replica.survey = None
    replica.votes_above = votes_above
    replica.outbox.add(NoteProof(io=replica.outbox.next_log_io(), votes_above=votes_above))
    later = "" if votes_above < 0 else f", and votes in epochs after {votes_above}"
    replica.outbox.add(Report(text=f"this directory is proven to be this replica's: it counts{later}"))
    state = replica.state
    if isinstance(state, Unattached) and state.election_deadline_ms <= now.mono_ms:
        replica.state = replace(state, election_deadline_ms=replica.draw_election_deadline_ms(now))
    elif isinstance(state, Follower) and state.fetch_deadline_ms <= now.mono_ms:
        replica.state = replace(state, fetch_deadline_ms=now.mono_ms + replica.config.fetch_timeout_ms)


def _report(replica: Replica, survey: Survey) -> Survey:
    """Say for whom this replica waits, if that is news."""
    waits_for = survey.unheard - survey.empty or survey.unheard
    if waits_for == survey.reported:
        return survey
    ids = ", ".join(str(node_id) for node_id in sorted(waits_for))
    text = (
        f"UNPROVEN DIRECTORY: it was never formatted, or it was emptied, so this node may have forgotten votes and "
        f"records of voter {replica.local.id}. It does not vote and does not count until it has heard from node {ids}: "
        "start what is down; or, only if nothing was lost with this directory, stop this node and format it explicitly "
        "(pykraft storage format)"
    )
    is_new_quorum = not survey.told and replica.log.end == EMPTY_LOG  # as far as anybody has said
    replica.outbox.add(Report(text=text, is_alarm=not is_new_quorum))
    return replace(survey, reported=waits_for)

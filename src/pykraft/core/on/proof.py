"""An unproven replica surveys the other voters to find out when it may take part.

It cannot know what its voter promised before the directory was emptied: votes, acknowledged records, epochs. It sends
every other voter a PreVote for an empty log in its current epoch, and takes part when one of these holds:

(a) All of them grant, and its own log is empty: nothing was ever committed, and any candidate that could still use a
    forgotten vote has an epoch that is not higher. From then on this replica votes in later epochs only. The only voter
    of a static set, or of the log that it had when it was last proven, has nobody to ask, and its log is its own.
(b) Enough voters deny, and so tell their epoch, that every majority with this replica contains one of them, and its log
    holds everything that it may have acknowledged. In the epoch that all of them told, that means all the records that
    the leader had when they told it. In a later epoch, whose leader was elected without this replica, one record of
    that epoch is enough. The only voter of a set in the log has nobody to ask either, but this log may be the beginning
    of what another leader has by now, with other voters: it counts as if all had told.
(c) An operator formatted the directory: then the replica is not unproven at all.

A replica with a fresh directory id, which no voter set can contain yet, needs no proof once it knows that the voter set
does not include it.

Source: ours (ADR 022, with the argument); KAFKA-14077; Raft dissertation §11.2 (a server that lost its state).
"""

from dataclasses import replace
from typing import Final

from pykraft.core.effects import NoteProof, Report
from pykraft.core.messages import FetchResponse, VoteRequest
from pykraft.core.on.send_requests import send_to_voter, voter_key
from pykraft.core.proof import NO_EPOCH, Survey
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Unattached
from pykraft.types import EPOCH_ZERO, Epoch, Instant, NodeId, Offset, OffsetAndEpoch, ReportKind

ROUNDS_PER_ELECTION_TIMEOUT: Final = 4
"""How often the survey asks the voters that have not answered."""
EMPTY_LOG: Final = OffsetAndEpoch(Offset(0), EPOCH_ZERO)


def settle_proof(replica: Replica, now: Instant, *, is_log_own: bool = False) -> None:
    """Restart the survey when the epoch or the voter set has changed; end it when nothing is missing.

    ``is_log_own``: nothing in the log was fetched without proof.

    Effects: what `_prove` adds.
    """
    survey = replica.survey
    if survey is None:
        return
    if not len(replica.voters):
        # Without a voter set we do not know whom to ask, nor whether we are a voter; a truncation may have removed it.
        if survey.others is not None:
            replica.survey = Survey(has_fresh_id=survey.has_fresh_id, has_old_voter=survey.has_old_voter)
        return
    # No voter ever had this directory id, and we are no voter under it: there is nothing to have forgotten.
    if survey.has_fresh_id and not replica.is_voter:
        _prove(replica, NO_EPOCH, now, "no voter has its new directory id")
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
    # Case (a) of the module's docstring: every log is empty, or nobody else can ever have led.
    is_only_ever = not others and (replica.voter_history.voters_offset is None or is_log_own)
    if survey.are_all_empty and (replica.log.end == EMPTY_LOG or is_only_ever):
        _prove(replica, survey.epoch, now, "the logs of all voters are empty")


def ask_others(replica: Replica, now: Instant) -> None:
    """Send a PreVote to each voter that has not answered, once per round.

    Effects: Send; Report when it waits for other voters than before.
    """
    survey = replica.survey
    if survey is None or not survey.unheard or replica.is_shutting_down:
        return
    # A new round asks every voter again that has not told, because requests and responses may be lost.
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
        # Sent aside, so that the Fetch that looks for the leader does not wait for these answers.
        if send_to_voter(replica, node_id, message, now, is_aside=True):
            survey = replace(survey, asked=survey.asked | {node_id})
    replica.survey = survey


def survey_deadline_ms(replica: Replica) -> int | None:
    """When the next survey round begins (mono ms); None without one."""
    survey = replica.survey
    return None if survey is None or not survey.unheard or replica.is_shutting_down else survey.round_deadline_ms


def on_survey_answer(replica: Replica, voter_id: NodeId, *, granted: bool) -> None:
    """A voter answered in the current epoch without an error: its log is empty, or it told its epoch."""
    survey = replica.survey
    if survey is None or voter_id not in (survey.others or ()) or survey.epoch != replica.epoch:
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
    """A voter does not support pre-votes, so it tells nothing; its epochs have no bound that others know (ADR 022)."""
    if replica.survey is not None:
        replica.survey = replace(replica.survey, has_old_voter=True)


def on_probe_answer(replica: Replica, correlation_id: int, message: FetchResponse) -> bool:
    """Note the leader's log end if this response answers the probe; False when it does not."""
    survey = replica.survey
    if survey is None or survey.probe != correlation_id:
        return False
    survey, diverging = replace(survey, is_probed=True), message.diverging
    if diverging is not None and diverging.epoch == survey.epoch == replica.epoch:
        survey = replace(survey, until_offset=diverging.offset)
    replica.survey = survey
    return True


def prove_if_caught_up(replica: Replica, answer: FetchResponse, now: Instant) -> None:
    """Case (b): take part if a non-diverging response, not appended yet, shows that the log holds enough.

    Effects: what `_prove` adds.
    """
    survey, log = replica.survey, replica.log
    if survey is None or log.last_epoch < replica.epoch or log.flushed_end_offset < log.end_offset:
        return
    blocked = None if survey.has_old_voter else survey.blocked_epoch
    is_newer = blocked is not None and replica.epoch > blocked
    is_beyond = survey.until_offset is not None and log.end_offset >= survey.until_offset
    is_all = not answer.batches and answer.invalid is None
    # Case (b). If enough voters told an earlier epoch, this epoch's leader was elected without this replica, and one
    # record of it is enough. Otherwise all must have told this epoch, and the log must reach the leader's log end.
    if is_newer or (survey.has_all_told and survey.epoch == replica.epoch and (is_beyond or is_all)):
        _prove(replica, replica.epoch, now, "this node has fetched all that it may have acknowledged before")


def _prove(replica: Replica, votes_above: Epoch, now: Instant, reason: str) -> None:
    """Take part like any other voter from now on, except for votes in epochs up to ``votes_above``.

    Effects: NoteProof, which a Fetch with this id and any later vote wait for; Report.
    """
    replica.survey = None
    replica.votes_above = votes_above
    replica.outbox.add(NoteProof(io=replica.outbox.next_log_io(), votes_above=votes_above))
    epochs = "" if votes_above < 0 else f" in epochs after {votes_above}"
    text = f"the directory is proven, since {reason}: from now on this node counts, and votes{epochs}"
    replica.outbox.add(Report(text=text))
    state = replica.state
    # If the timeout expired during the survey, restart it. Other replicas that waited for the same answers would
    # otherwise all campaign at once.
    if isinstance(state, Unattached) and state.election_deadline_ms <= now.mono_ms:
        replica.state = replace(state, election_deadline_ms=replica.draw_election_deadline_ms(now))
    elif isinstance(state, Follower) and state.deadline_ms <= now.mono_ms:
        replica.state = replace(state, fetch_deadline_ms=now.mono_ms + replica.config.fetch_timeout_ms)


def _report(replica: Replica, survey: Survey) -> Survey:
    waits_for = survey.unheard - survey.empty or survey.unheard
    if waits_for == survey.reported:
        return survey
    ids = ", ".join(str(node_id) for node_id in sorted(waits_for))
    until = f"it does not vote and does not count until it has heard from node {ids}: start what is down; or, only if"
    remedy = "nothing was lost with this directory, stop this node and format it explicitly (pykraft storage format)"
    # As far as the other voters have told.
    is_new_quorum = not survey.told and replica.log.end == EMPTY_LOG
    if is_new_quorum:
        text = f"new directory: this node has no proof yet that it never voted, so {until} {remedy}"
    else:
        forgotten = f"this node may have forgotten votes and records of voter {replica.local.id}"
        text = f"UNPROVEN DIRECTORY: it was never formatted, or it was emptied, so {forgotten}; {until} {remedy}"
    replica.outbox.add(Report(text=text, is_alarm=not is_new_quorum, kind=ReportKind.UNPROVEN))
    return replace(survey, reported=waits_for)

"""A follower whose leader refuses connections asks for pre-votes before its fetch timeout.

A refusal says that no process listens at the leader's endpoint, so the leader's process has probably ended. It may run
all the same, and serve others whose connections stand; so a refusal leads to one pre-vote, and pre-votes bind nothing.

1. A follower that has fetched from the leader loses the connection, and the leader refuses the next one. From now on
   the follower grants pre-votes.
2. It waits a short, random pause. An answer of the leader ends the pause. A follower that grants a pre-vote meanwhile
   lets the other voter go first, because two candidates in one epoch may split the votes.
3. It asks for pre-votes. Voters that deny have perhaps not noticed yet, and are asked again.
4. If no majority grants in time, the leader itself answers, or a voter knows no pre-votes, it follows the leader again
   and keeps its fetch deadline. The next refusals change nothing until it has fetched from the leader again.

Source: ours (ADR 063); KIP-996 says when a voter grants a pre-vote.
"""

from dataclasses import replace

from pykraft.core.effects import Report
from pykraft.core.election import draw_early_pause_ms, early_campaign_ms
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.types import Instant


def on_leader_refused(replica: Replica, peer_id: int, now: Instant) -> None:
    """Step 1: a peer refused a connection; plan an early campaign if it is the leader.

    Effects: Report.
    """
    state = replica.state
    # `has_fetched` is cleared below, so a leader that refuses every connection causes one campaign. A leader that never
    # answered may have a wrong endpoint, and one that left has named its successors.
    if not isinstance(state, Follower) or peer_id != state.leader_id or not state.has_fetched:
        return
    pause_ms = draw_early_pause_ms(replica.rng, replica.config.retry_backoff_ms)
    replica.state = replace(state, has_fetched=False, early_deadline_ms=now.mono_ms + pause_ms)
    text = f"node {state.leader_id}, the leader of epoch {state.epoch}, refuses connections: no process listens there"
    replica.outbox.add(Report(text=text))


def let_go_first(replica: Replica, now: Instant) -> None:
    """Step 2: this replica granted a pre-vote; its own early campaign waits for the outcome.

    `pykraft.core.on.vote` counts the answers to a campaign, early or not: steps 3 and 4.
    """
    state = replica.state
    if isinstance(state, Follower) and state.early_deadline_ms is not None:
        backoff_ms = replica.config.retry_backoff_ms
        wait_ms = early_campaign_ms(backoff_ms) + draw_early_pause_ms(replica.rng, backoff_ms)
        replica.state = replace(state, early_deadline_ms=now.mono_ms + wait_ms)

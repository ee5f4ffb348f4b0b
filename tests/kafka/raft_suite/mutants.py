"""Which of twenty planted bugs, of rules that Kafka has too, do Kafka's tests notice by themselves.

The bugs are those of `tests.sim.mutants`. Each is planted in the Python process alone. A bug is noticed if a test fails
that passes without it. The results of the last run are in ``mutants.json``, and the page shows them.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.kafka.raft_suite.decided import decision_on
from tests.kafka.raft_suite.suite import CLASSES, Part, Suite
from tests.sim.mutants import MUTANTS

RESULTS: Final = Path(__file__).with_name("mutants.json")
TIMEOUT_S: Final = 150.0
"""A test that waits in vain takes five seconds; without a bug, all of them take twenty together."""
MANY: Final = 99
"""So many or more fail, and the rest was not waited for."""
PLANTED: Final = (
    "votes_ignore_the_log",
    "the_longer_log_wins",
    "votes_are_given_twice",
    "former_leader_campaigns_in_its_old_epoch",
    "answers_of_an_older_epoch_count",
    "pre_vote_raises_the_epoch",
    "pre_vote_is_kept_as_a_vote",
    "pre_vote_from_a_follower",
    "candidate_without_pre_votes",
    "check_quorum_never_fires",
    "check_quorum_counts_observers",
    "requests_of_the_epoch_before_are_served",
    "two_changes_at_once",
    "removed_leader_counts_itself",
    "bootstrap_voters_are_not_copied",
    "divergence_is_off_by_one",
    "followers_are_sent_too_far_back",
    "old_epochs_commit_by_counting",
    "observers_commit",
    "one_acknowledgment_is_enough",
)


def report(suite: Suite) -> int:
    """Play all of them, print and write down how many tests fail with each; 0 when all are noticed."""
    found: dict[str, int] = {}
    for name in PLANTED:
        try:
            outcomes = suite.run(Part(classes=CLASSES), options=["--bug", name], timeout_s=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            found[name] = MANY
        else:
            found[name] = sum(each.problem is not None and decision_on(each) is None for each in outcomes)
        print(f"{found[name]:4} tests fail: {name}: {MUTANTS[name].story}", flush=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if all(found.values()) else 1

"""The handlers of operator requests; `dispatch` includes this table in that of all requests.

Source: KIP-595 §DescribeQuorum, KIP-853.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.core import messages
from pykraft.core.events import RequestReceived
from pykraft.core.on.describe import on_describe_quorum_request
from pykraft.core.on.transfer import on_transfer_leadership_request
from pykraft.core.on.voters.add_voter import on_add_voter_request
from pykraft.core.on.voters.remove_voter import on_remove_voter_request
from pykraft.core.on.voters.upgrade import on_update_features_request
from pykraft.core.replica import Replica
from pykraft.types import Instant

OPERATOR_HANDLERS: Mapping[type[messages.Request], Callable[[Replica, RequestReceived, Any, Instant], None]] = {
    messages.DescribeQuorumRequest: on_describe_quorum_request,
    messages.AddVoterRequest: on_add_voter_request,
    messages.RemoveVoterRequest: on_remove_voter_request,
    messages.UpdateFeaturesRequest: on_update_features_request,
    messages.TransferLeadershipRequest: on_transfer_leadership_request,
}

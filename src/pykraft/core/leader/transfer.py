"""A leadership transfer whose outcome is not known yet. Data only: see ``core.on.transfer``.

Source: Raft dissertation §3.10.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.types import Epoch, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The leader of ``epoch`` wants ``target_id`` to lead the next one.

    If the target does not have the whole log by ``deadline_ms``, the leader stays leader. Once the leader has resigned,
    a new one should be known by ``outcome_deadline_ms`` (both mono). ``is_heard``: the target has fetched since the
    request. Exactly one of ``handle`` and ``request_id`` identifies the requester.
    """

    epoch: Epoch
    target_id: NodeId
    begun_ms: int
    deadline_ms: int
    outcome_deadline_ms: int
    is_heard: bool = False
    handle: int | None = None
    request_id: int | None = None

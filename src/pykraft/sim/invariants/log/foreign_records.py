"""No replica appends records that only a stranger has written, in an answer that no leader gives.

Batches below the log end, beyond a gap or of a later epoch than the leader's, and batches in an answer that names
another leader of the epoch, are not from the log of the leader that the replica follows.

Source: KIP-595 §Fetch; KAFKA-18723; ADR 028. Kafka appends the records of an answer that names another leader.
"""

from __future__ import annotations

from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode


class StrangersAddNothing(Invariant):
    """No log appends a batch that a stranger sent."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Look for a stranger's batches in what is appended."""
        if not isinstance(job, AppendBytes) or not self.facts.claims.batches:
            return
        for header, _ in job.batches:
            if (int(header.base_offset), header.crc) in self.facts.claims.batches:
                seen = f"node {node.node_id} appends the batch of a stranger at {header.base_offset}"
                raise self.violated(f"{seen} of epoch {header.epoch}")

"""What the directory of a starting node proves, and the durable note for later starts.

Invariant: once `DirectoryProof.note_partition` has run, and before the first message, any later emptying of the
directory will be detected, whoever recreates it. `pykraft.log.small_files.proof_file` has the rules of the file.

Source: ours (ADR 022).
"""

from __future__ import annotations

from pykraft.config import NodeConfig
from pykraft.core.proof import PROVEN
from pykraft.log.fs import Fs
from pykraft.log.small_files.proof_file import ProofFile, look_up_proof
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.types import Election, NodeId


class DirectoryProof:
    """The proof of one directory, from its lock on; a node without an id needs none."""

    def __init__(self, fs: Fs, config: NodeConfig) -> None:
        self._fs = fs
        self._config = config
        self.file = ProofFile(fs, config.log_dir)
        self.proof = PROVEN

    def on_owned(self, *, is_formatted: bool) -> None:
        """The directory is locked and nothing is written in it yet. Errors: StorageError."""
        self.proof = look_up_proof(
            self._fs,
            self.file,
            self._config.partition_directory,
            is_formatted=is_formatted,
            has_given_id=self._config.directory_id is not None,
        )

    def note_partition(
        self, elections: ElectionStore, *, is_new: bool, is_log_empty: bool, voters: tuple[NodeId, ...], level: int
    ) -> None:
        """Note durably that the partition exists, before any message that an emptied directory would not remember.

        Until the note exists, a formatted directory proves itself.

        Errors: StorageError.
        """
        if self._config.node_id is None or not self.proof.is_complete or self.file.exists():
            return
        # An election that is missing beside a log is for the core to decide; the next start notes it.
        if is_new and not is_log_empty:
            return
        if is_new:
            # The note promises that there is an election, so write that first.
            elections.write(Election(), voters=voters, kraft_version=level)
        self.file.write(PROVEN)

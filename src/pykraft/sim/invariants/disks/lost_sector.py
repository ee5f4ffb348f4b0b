"""A start that cannot read a page of the log calls the log damaged; it does not cut the page off as a torn tail.

A torn tail was never synced, so nobody was told of it. A page that the disk has lost may hold what the node has
acknowledged, above the recovery point, too: cut off without a word, a majority may lack it that once had it.

Source: ADR 026; IRON File Systems (SOSP 2005, latent sector errors).
"""

from __future__ import annotations

from pykraft.log.paths import LOG
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.inode import PAGE_SIZE_BYTES, Inode
from pykraft.sim.machine.node import Node


class LostSectorIsDamage(Invariant):
    """No start cuts an unreadable page off a segment and takes part as if nothing had been there."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._lost: dict[int, list[tuple[Inode, frozenset[int]]]] = {}

    def starting(self, node: Node) -> None:
        """Note unreadable pages; a start before this one may have ended without a word of those that it cut."""
        found = [(inode, _unreadable(inode)) for inode in _segments(node).values()]
        self._lost.setdefault(int(node.node_id), []).extend(each for each in found if each[1])

    def started(self, node: Node) -> None:
        """Look which of them are gone from segments that are still there."""
        segments = _segments(node)
        for inode, pages in self._lost.pop(int(node.node_id), []):
            name = next((name for name, each in segments.items() if each is inode), None)
            cut = pages - _unreadable(inode)
            if name is not None and cut and not node.is_damaged:
                seen = f"node {node.node_id} has cut page {min(cut)} of {name}, which it could not read"
                raise self.violated(f"{seen}, and does not call its log damaged")

    def wiped(self, node: Node) -> None:
        """Another disk."""
        self._lost.pop(int(node.node_id), None)


def _segments(node: Node) -> dict[str, Inode]:
    """Files of the log, by name."""
    directory = node.disk.directory(node.config.partition_directory)
    found = directory.cached.items() if directory is not None else ()
    return {name: inode for name, inode in found if name.endswith(LOG)}


def _unreadable(inode: Inode) -> frozenset[int]:
    """Pages of a file as it is in the cache that neither cache nor platter can give."""
    pages = inode.lost_pages - inode.dirty_pages
    return frozenset(page for page in pages if page * PAGE_SIZE_BYTES < len(inode.cached))

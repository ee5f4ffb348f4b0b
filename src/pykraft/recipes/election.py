"""The election of one leader among programs, for work that only one of them may do: a scheduler, a writer.

It is a lock whose holder says who it is, so that everybody else can see who leads and hear of changes. The leader of
the election has nothing to do with the leader of the quorum.

Source: ours (ADR 087).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, suppress

from pykraft.errors import CompactedError
from pykraft.recipes.key_value_commands import Item, prefix
from pykraft.recipes.key_value_store import KeyValueStore
from pykraft.recipes.lock import HeldLock, holder_of, lock


def leadership(
    store: KeyValueStore, name: str, candidate: str, *, ttl_ms: int = 10_000
) -> AbstractAsyncContextManager[HeldLock]:
    """Wait until this candidate is elected, and lead in this block: see `pykraft.recipes.lock`.

    ``token`` is the term: later leaders have higher ones. Errors: LeaseLostError when the leadership was lost.
    """
    return lock(store, name, ttl_ms=ttl_ms, holder=candidate)


async def leader_of(store: KeyValueStore, name: str) -> str | None:
    """Who leads now; None while nobody does."""
    found = await holder_of(store, name)
    return None if found is None else found.value


async def leaders(store: KeyValueStore, name: str) -> AsyncGenerator[str | None, None]:
    """Who leads, now and after each change; endless. Of changes that come at once only the last may be seen."""
    told: Item | None = None
    is_first = True
    while True:
        # The revision first: what changes after the look is then in the watch.
        revision = await store.revision()
        found = await holder_of(store, name)
        if is_first or found != told:
            told, is_first = found, False
            yield None if found is None else found.value
        with suppress(CompactedError):  # so much has changed: look again
            async with aclosing(store.watch(*prefix(f"{name}/"), from_revision=revision + 1)) as changes:
                await anext(changes)

"""Bugs planted in the key-value store, its snapshots and the recipes, which simulated worlds must notice by themselves.

Each plants itself with a patch, and its docstring says what it does.
``python -m tests.recipes.worlds.search`` finds a seed for each.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from pykraft import recipes
from pykraft.client import LeaderAndEpoch, StableRecords
from pykraft.errors import CommandRejectedError, CompactedError
from pykraft.machine import Applied, applier
from pykraft.machine.applier import Applier, LeaderClock
from pykraft.machine.records import TimeRecord
from pykraft.machine.replica import MachineReplica, _snapshot_records
from pykraft.recipes.coordination import AFTER_DIGITS, _before, lock, namespace
from pykraft.recipes.job_queue import JobQueue, TakenJob, _Desk
from pykraft.recipes.key_space import KeptChanges, KeySpace, KeyWatch, KeyWatches
from pykraft.recipes.key_value_commands import GrantLease, KeepLease
from pykraft.recipes.key_value_store import NodeLease
from pykraft.recipes.key_values import SNAPSHOTS, LeaseState
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.recipes.worlds.idle_leases import run_idle_leases
from tests.recipes.worlds.log_rules import START
from tests.recipes.worlds.workload import run_recipes
from tests.sim.mutants.patch import Patch


def leases_are_not_in_snapshots(patch: Patch) -> None:
    """A snapshot has the keys without the leases."""
    snapshot = recipes.KeyValues.snapshot

    def without(self: recipes.KeyValues) -> Iterator[bytes]:
        for record in snapshot(self):
            if not isinstance(SNAPSHOTS.deserialize(record), LeaseState):
                yield record

    patch.setattr(recipes.KeyValues, "snapshot", without)


def snapshot_renews_leases(patch: Patch) -> None:
    """A lease lives longer on a replica that began with a snapshot."""
    restore_stream = recipes.KeyValues.restore_stream

    async def renewing(self: recipes.KeyValues, records: Any) -> None:
        await restore_stream(self, records)
        for found in self._leases.values():
            found.expires_ms += 500

    patch.setattr(recipes.KeyValues, "restore_stream", renewing)


def snapshot_has_a_later_session(patch: Patch) -> None:
    """The results of a session that had none yet are those of commands that came while the snapshot was written."""

    def live(self: MachineReplica[Any, Any]) -> StableRecords[bytes]:
        sessions = [
            (
                at,
                one.nonce,
                one.used_ms,
                one.acknowledged,
                [*one.answers.items()] if one.answers else one.answers.items(),
            )
            for at, one in self._sessions.items()
        ]
        head = TimeRecord(self.time_ms, self._swept_ms)
        return StableRecords(_snapshot_records(head, sessions, self.machine.snapshot()))  # type: ignore[arg-type]

    patch.setattr(MachineReplica, "save", live)


def snapshot_has_later_keys(patch: Patch) -> None:
    """The keys are not copied before they are written."""

    def live(self: KeySpace) -> Iterator[Any]:
        for key in [*self.keys]:
            item = self.get(key)
            if item is not None:
                yield item
        yield from self.kept.records()

    patch.setattr(KeySpace, "records", live)


def end_of_a_lease_is_forgotten(patch: Patch) -> None:
    """A replica that began with a snapshot does not end leases."""
    restore_stream = recipes.KeyValues.restore_stream

    async def idle(self: recipes.KeyValues, records: Any) -> None:
        await restore_stream(self, records)
        setattr(self, "elapse", lambda _: None)  # noqa: B010 - of this replica alone

    patch.setattr(recipes.KeyValues, "restore_stream", idle)


@dataclass(frozen=True, slots=True)
class RecipeBug:
    """``plant`` makes the bug; in the world ``seed`` of ``run`` it breaks the rule ``noticed_by``."""

    plant: Callable[[Patch], None]
    seed: int
    noticed_by: str
    run: Callable[[int], Outcome | Failure] = run_recipes


def lease_is_not_kept(patch: Patch) -> None:
    """A lease ends at its first time, although its holder kept it."""
    apply = recipes.KeyValues.apply

    def forgetful(self: recipes.KeyValues, command: Any, context: Applied) -> Any:
        if isinstance(command, KeepLease):
            self._lease(command.lease, context.time_ms)
            return None
        return apply(self, command, context)

    patch.setattr(recipes.KeyValues, "apply", forgetful)


def lease_ends_early(patch: Patch) -> None:
    """A lease ends before its time in the log."""
    apply = recipes.KeyValues.apply

    def shorter(self: recipes.KeyValues, command: Any, context: Applied) -> Any:
        if isinstance(command, KeepLease | GrantLease):
            context = context._replace(time_ms=context.time_ms - 400)
        return apply(self, command, context)

    patch.setattr(recipes.KeyValues, "apply", shorter)


def log_time_runs_fast(patch: Patch) -> None:
    """The log time is ahead of the clocks of all nodes, so a lease ends before its holder gave up."""

    def fast(self: LeaderClock, applied_ms: int, mono_s: float) -> int:
        if self._started is None:
            return applied_ms
        time_ms, started_s = self._started
        return max(applied_ms, time_ms + int((mono_s - started_s) * 4_000))

    patch.setattr(LeaderClock, "time_ms", fast)


def new_leader_forgets_the_time(patch: Patch) -> None:
    """A leader goes on from the last record, and writes the time only when a lease may end."""
    patch.setattr(applier, "TICK_MS_MIN", 1 << 40)
    handle_leader_change = Applier.handle_leader_change

    def forgetful(self: Applier[Any, Any], leader_and_epoch: LeaderAndEpoch) -> None:
        self._applied_s = None
        self.silence_ms_max = 1 << 40
        handle_leader_change(self, leader_and_epoch)

    patch.setattr(Applier, "handle_leader_change", forgetful)


def leader_writes_before_it_knows_the_time(patch: Patch) -> None:
    """A new leader takes commands while it still applies what came before: with the time of the last record."""
    patch.setattr(Applier, "leader_time_ms", Applier.time_ms)


def control_record_counts_as_time(patch: Patch) -> None:
    """A new leader goes on from its own control record, which has no time."""
    handle_leader_change = Applier.handle_leader_change

    def late(self: Applier[Any, Any], leader_and_epoch: LeaderAndEpoch) -> None:
        self._applied_s = asyncio.get_running_loop().time()
        handle_leader_change(self, leader_and_epoch)

    patch.setattr(Applier, "handle_leader_change", late)


def holder_gives_up_late(patch: Patch) -> None:
    """A holder goes on for 60 % longer than its lease lives."""
    patch.setattr(recipes.key_value_store, "HELD_SHARE", 1.6)


def lost_lease_is_never_given_up(patch: Patch) -> None:
    """A holder whose lease cannot be kept goes on."""

    @asynccontextmanager
    async def careless(self: NodeLease) -> AsyncIterator[None]:
        await self._opened
        yield

    patch.setattr(NodeLease, "block", careless)


def ended_lease_is_revived(patch: Patch) -> None:
    """A lease whose time is over lives on if it is kept before anybody noticed."""
    elapse = recipes.KeyValues.elapse

    def late(self: recipes.KeyValues, context: Applied) -> None:
        elapse(self, context._replace(time_ms=context.time_ms - 300))

    patch.setattr(recipes.KeyValues, "elapse", late)


def keys_outlive_their_lease(patch: Patch) -> None:
    """A lease ends, and one of its keys stays."""
    end = recipes.KeyValues._end

    def lazy(self: recipes.KeyValues, lease: int) -> int:
        found = self._leases.get(lease)
        if found is not None and found.keys:
            found.keys.discard(min(found.keys))
        return end(self, lease)

    patch.setattr(recipes.KeyValues, "_end", lazy)


def transaction_applies_half(patch: Patch) -> None:
    """A transaction stops in the middle of its operations."""
    transact = recipes.KeyValues._transact

    def half(self: recipes.KeyValues, transaction: recipes.Transaction, time_ms: int) -> Any:
        then = transaction.then[: max(1, (len(transaction.then) + 1) // 2)]
        return transact(self, replace(transaction, then=then), time_ms)

    patch.setattr(recipes.KeyValues, "_transact", half)


def compaction_takes_one_revision_too_many(patch: Patch) -> None:
    """A compaction drops the changes of the revision that it should keep."""
    compact = KeySpace.compact

    def greedy(self: KeySpace, revision: int) -> None:
        compact(self, revision)
        if self.kept and self.kept.revisions[self.kept.begin] == revision:
            self.kept.drop(self.kept.whole(self.kept.begin + 1))

    patch.setattr(KeySpace, "compact", greedy)


def watch_starts_below_the_compaction(patch: Patch) -> None:
    """A watch from a compacted revision begins later, and does not say so."""
    changes = KeySpace.changes

    def silent(self: KeySpace, revision: int, key: str, end: str | None) -> Any:
        return changes(self, max(revision, self.oldest_revision), key, end)

    patch.setattr(KeySpace, "changes", silent)


def watch_is_refused_for_no_reason(patch: Patch) -> None:
    """A watch from the oldest revision that is kept is refused."""
    changes = KeySpace.changes

    def strict(self: KeySpace, revision: int, key: str, end: str | None) -> Any:
        if 1 < revision == self.oldest_revision:
            raise CompactedError(revision, self.oldest_revision + 1)
        return changes(self, revision, key, end)

    patch.setattr(KeySpace, "changes", strict)


def revision_is_cut_in_two(patch: Patch) -> None:
    """A watch gets half of a transaction twice, since it goes on at the revision that it was cut at."""
    whole = KeptChanges.whole

    def cut(self: KeptChanges, stop: int) -> int:
        revisions, end = self.revisions, min(stop, len(self.revisions))
        # If all that is looked at is of one revision, the watch would look at it for ever.
        begin = max(0, end - recipes.key_space.SCANNED_MAX)
        is_one = end < len(revisions) and revisions[begin] == revisions[end]
        return whole(self, stop) if is_one else end

    patch.setattr(KeptChanges, "whole", cut)


def watch_skips_a_revision(patch: Patch) -> None:
    """A watch that looks while nothing is new goes on one revision too late."""
    changes = KeySpace.changes

    def hasty(self: KeySpace, revision: int, key: str, end: str | None) -> Any:
        found, following = changes(self, revision, key, end)
        return found, following if found else following + 1

    patch.setattr(KeySpace, "changes", hasty)


def token_is_used_again(patch: Patch) -> None:
    """The token of a lock is the place in its queue."""

    @asynccontextmanager
    async def again(store: recipes.KeyValueStore, name: str, **named: Any) -> AsyncIterator[recipes.HeldLock]:
        async with lock(store, name, **named) as held:
            yield recipes.HeldLock(held.token % 16, held.key)

    patch.setattr(recipes, "lock", again)


def lock_waits_for_nobody(patch: Patch) -> None:
    """A candidate takes the lock at once."""

    async def nobody(*_: object) -> None:
        return None

    patch.everywhere(_before, nobody)


def second_candidate_does_not_wait(patch: Patch) -> None:
    """A candidate that has one other before it does not wait for that."""

    async def stale(store: recipes.KeyValueStore, name: str, key: str) -> Any:
        earlier = await store.range(namespace("lock", name), key, limit=100_000, stale=True)
        return earlier[0] if len(earlier) > 1 else None

    patch.everywhere(_before, stale)


def leader_is_who_came_last(patch: Patch) -> None:
    """An observer of the election takes the newest candidate for the leader."""

    async def newest(store: recipes.KeyValueStore, name: str) -> Any:
        return await store.last(namespace("lock", name), namespace("lock", name) + AFTER_DIGITS)

    patch.setattr(recipes.coordination, "holder_of", newest)


def job_is_taken_without_a_look(patch: Patch) -> None:
    """A worker takes a job that another one has taken meanwhile."""
    transact = recipes.KeyValueStore.transact

    async def blind(
        self: recipes.KeyValueStore, then: Sequence[Any], conditions: Sequence[Any] = (), *rest: Any
    ) -> Any:
        kept = [one for one in conditions if not ({"claim", "tries"} & {*one.key.split("/")}) or one.field != "version"]
        return await transact(self, then, kept, *rest)

    patch.setattr(recipes.KeyValueStore, "transact", blind)


def former_worker_ends_the_job(patch: Patch) -> None:
    """A worker that has failed, and so has given its job back, ends it afterwards."""
    take = JobQueue.take

    @asynccontextmanager
    async def late(self: JobQueue) -> AsyncIterator[TakenJob]:
        taken: list[TakenJob] = []
        try:
            async with take(self) as job:
                taken.append(job)
                yield job
        finally:
            for job in taken:
                if not job._is_done:
                    effect = recipes.Put(f"ended/{job.number}", "its former worker")
                    await self._store.transact([job._end[0], effect])

    patch.setattr(JobQueue, "take", late)


def taken_job_is_deleted(patch: Patch) -> None:
    """A job leaves the queue when it is taken, so it is lost with its worker."""
    take = JobQueue.take

    @asynccontextmanager
    async def eager(self: JobQueue) -> AsyncIterator[TakenJob]:
        async with take(self) as job:
            await self._store.transact([recipes.Delete(job._end[0].key)])
            yield job

    patch.setattr(JobQueue, "take", eager)


def attempts_are_not_limited(patch: Patch) -> None:
    """A job that fails is tried for ever."""
    take = _Desk.take

    async def patient(self: _Desk, held: NodeLease, attempts: int) -> TakenJob:
        del attempts
        return await take(self, held, 1_000_000)

    give_back = TakenJob._return

    async def again(self: TakenJob, attempts: int, retry_ms: int) -> None:
        del attempts
        await give_back(self, 1_000_000, retry_ms)

    patch.setattr(_Desk, "take", patient)
    patch.setattr(TakenJob, "_return", again)


def token_of_a_job_is_its_number(patch: Patch) -> None:
    """A worker that was stopped and the new one have the same token."""
    take = _Desk.take

    async def same(self: _Desk, held: NodeLease, attempts: int) -> TakenJob:
        job = await take(self, held, attempts)
        return replace(job, token=job.number)

    patch.setattr(_Desk, "take", same)


def watch_of_a_range_is_not_woken(patch: Patch) -> None:
    """A change wakes the watches of its key, and not those of a range."""
    changed = KeyWatches.changed

    def only_keys(self: KeyWatches, revision: int, keys: Sequence[str]) -> None:
        of_start, self._of_start = self._of_start, {}
        changed(self, revision, keys)
        self._of_start = of_start

    patch.setattr(KeyWatches, "changed", only_keys)


def woken_watch_begins_too_late(patch: Patch) -> None:
    """A watch that was woken begins after the change that woke it."""
    changed = KeyWatch.changed
    patch.setattr(KeyWatch, "changed", lambda self, revision: changed(self, revision + 1))


def unknown_candidate_stays(patch: Patch) -> None:
    """A candidate whose number is unknown leaves its key to the lease of its node, which others keep."""

    async def forget(self: NodeLease, act: Callable[[], Any]) -> None:
        del self, act

    patch.setattr(NodeLease, "give_up", forget)


def waiter_begins_at_the_item_again(patch: Patch) -> None:
    """Who waits for an item whose changes were compacted looks, asks for them again, and so on without end."""

    async def stubborn(store: recipes.KeyValueStore, item: recipes.Item) -> None:
        await store.get(item.key)
        with suppress(CompactedError):
            async with aclosing(store.watch(item.key, from_revision=item.modified + 1)) as changes:
                async for change in changes:
                    if change.item is None:
                        return

    patch.setattr(recipes.coordination, "wait_deleted", stubborn)


def barrier_counts_the_dead(patch: Patch) -> None:
    """A party has no lease, so it is counted after its death."""
    transact = recipes.KeyValueStore.transact

    async def without(self: recipes.KeyValueStore, then: Sequence[Any], *rest: Any) -> Any:
        then = [
            replace(one, lease=0) if isinstance(one, recipes.Put) and one.key.startswith(START) else one for one in then
        ]
        return await transact(self, then, *rest)

    patch.setattr(recipes.KeyValueStore, "transact", without)


def rejected_transaction_leaves_something(patch: Patch) -> None:
    """A transaction that is rejected has put its first key before."""
    transact = recipes.KeyValues._transact

    def leaving(self: recipes.KeyValues, transaction: recipes.Transaction, time_ms: int) -> Any:
        try:
            return transact(self, transaction, time_ms)
        except CommandRejectedError:
            for one in transaction.then:
                if isinstance(one, recipes.Put):
                    self._put(replace(one, lease=0), self.space.revision + 1)
                    break
            raise

    patch.setattr(recipes.KeyValues, "_transact", leaving)


def watch_misses_the_compacted_revision(patch: Patch) -> None:
    """A watch from the oldest revision that is kept begins behind it."""
    changes = KeySpace.changes

    def later(self: KeySpace, revision: int, key: str, end: str | None) -> Any:
        return changes(self, revision + (revision == self.oldest_revision > 1), key, end)

    patch.setattr(KeySpace, "changes", later)


def barrier_opens_twice(patch: Patch) -> None:
    """A party that opens the barrier does not look whether another one has, or has left."""
    transact = recipes.KeyValueStore.transact

    async def blind(
        self: recipes.KeyValueStore, then: Sequence[Any], conditions: Sequence[Any] = (), *rest: Any, **named: Any
    ) -> Any:
        is_opening = all(isinstance(one, recipes.Put) and one.key.startswith(f"{START}0") for one in then)
        return await transact(self, then, () if is_opening else conditions, *rest, **named)

    patch.setattr(recipes.KeyValueStore, "transact", blind)


def claim_is_left_behind(patch: Patch) -> None:
    """The end of a job leaves its claim to the lease of the node, which others keep."""
    end = TakenJob._end.fget  # type: ignore[attr-defined]

    def without(self: TakenJob) -> list[Any]:
        return [one for one in end(self) if "/claim/" not in one.key]

    patch.setattr(TakenJob, "_end", property(without))


def dead_letter_is_lost(patch: Patch) -> None:
    """A job that failed too often is deleted."""
    transact = recipes.KeyValueStore.transact

    async def lost(self: recipes.KeyValueStore, then: Sequence[Any], *rest: Any) -> Any:
        kept = [one for one in then if not (isinstance(one, recipes.Put) and "/buried/" in one.key)]
        return await transact(self, kept, *rest)

    patch.setattr(recipes.KeyValueStore, "transact", lost)


def try_lock_takes_what_is_held(patch: Patch) -> None:
    """Who only tries is as good as a holder."""

    @asynccontextmanager
    async def bold(store: recipes.KeyValueStore, name: str, **named: Any) -> AsyncIterator[recipes.HeldLock]:
        space, holder = namespace("lock", name), named["holder"]
        async with recipes.coordination.numbered(store, space, holder, named["ttl_ms"]) as own:
            yield recipes.HeldLock(own.created, own.key)

    patch.setattr(recipes, "try_lock", bold)


def lock_is_not_given_back(patch: Patch) -> None:
    """The end of a block leaves the lock to the lease of the node, which others keep."""

    @asynccontextmanager
    async def careless(store: recipes.KeyValueStore, name: str, **named: Any) -> AsyncIterator[recipes.HeldLock]:
        transact, space = store.transact, namespace("lock", name)

        async def keep(then: Sequence[Any], *rest: Any, **others: Any) -> Any:
            kept = [one for one in then if not (isinstance(one, recipes.Delete) and one.key.startswith(space))]
            return await transact(kept, *rest, **others)

        setattr(store, "transact", keep)  # noqa: B010 - of this store alone
        async with lock(store, name, **named) as held:
            yield held

    patch.setattr(recipes, "lock", careless)


BUGS = {
    "lease_is_not_kept": RecipeBug(lease_is_not_kept, 0, "StoreIsAsTold"),
    "lease_ends_early": RecipeBug(lease_ends_early, 0, "StoreIsAsTold"),
    "log_time_runs_fast": RecipeBug(log_time_runs_fast, 0, "HolderGivesUpFirst"),
    "new_leader_forgets_the_time": RecipeBug(new_leader_forgets_the_time, 0, "LeaseEndsInTime", run_idle_leases),
    "control_record_counts_as_time": RecipeBug(control_record_counts_as_time, 1, "LeaseEndsInTime", run_idle_leases),
    "leader_writes_before_it_knows_the_time": RecipeBug(
        leader_writes_before_it_knows_the_time, 21012, "HolderGivesUpFirst"
    ),
    "holder_gives_up_late": RecipeBug(holder_gives_up_late, 66, "HolderGivesUpFirst"),
    "lost_lease_is_never_given_up": RecipeBug(lost_lease_is_never_given_up, 2, "HolderGivesUpFirst"),
    "ended_lease_is_revived": RecipeBug(ended_lease_is_revived, 0, "StoreIsAsTold"),
    "keys_outlive_their_lease": RecipeBug(keys_outlive_their_lease, 0, "StoreIsAsTold"),
    "leases_are_not_in_snapshots": RecipeBug(leases_are_not_in_snapshots, 0, "StoreIsAsTold"),
    "snapshot_renews_leases": RecipeBug(snapshot_renews_leases, 0, "EqualReplicas"),
    "snapshot_has_a_later_session": RecipeBug(snapshot_has_a_later_session, 100, "EqualReplicas"),
    "snapshot_has_later_keys": RecipeBug(snapshot_has_later_keys, 0, "EqualReplicas"),
    "transaction_applies_half": RecipeBug(transaction_applies_half, 0, "StoreIsAsTold"),
    "compaction_takes_one_revision_too_many": RecipeBug(compaction_takes_one_revision_too_many, 0, "StoreIsAsTold"),
    "watch_starts_below_the_compaction": RecipeBug(watch_starts_below_the_compaction, 0, "WatchesMissNothing"),
    "watch_is_refused_for_no_reason": RecipeBug(watch_is_refused_for_no_reason, 25, "WatchesMissNothing"),
    "revision_is_cut_in_two": RecipeBug(revision_is_cut_in_two, 0, "WatchesMissNothing"),
    "watch_skips_a_revision": RecipeBug(watch_skips_a_revision, 0, "WatchesMissNothing"),
    "token_is_used_again": RecipeBug(token_is_used_again, 2, "TokensGrow"),
    "lock_waits_for_nobody": RecipeBug(lock_waits_for_nobody, 0, "OneHolderAtATime"),
    "second_candidate_does_not_wait": RecipeBug(second_candidate_does_not_wait, 0, "OneHolderAtATime"),
    "leader_is_who_came_last": RecipeBug(leader_is_who_came_last, 0, "LeadersLead"),
    "job_is_taken_without_a_look": RecipeBug(job_is_taken_without_a_look, 7, "HolderGivesUpFirst"),
    "former_worker_ends_the_job": RecipeBug(former_worker_ends_the_job, 1, "JobOfItsWorker"),
    "taken_job_is_deleted": RecipeBug(taken_job_is_deleted, 0, "NoJobIsLost"),
    "waiter_begins_at_the_item_again": RecipeBug(waiter_begins_at_the_item_again, 5, "MachineGoesOn"),
    "attempts_are_not_limited": RecipeBug(attempts_are_not_limited, 9, "AttemptsAreCounted"),
    "token_of_a_job_is_its_number": RecipeBug(token_of_a_job_is_its_number, 0, "HolderGivesUpFirst"),
    "watch_of_a_range_is_not_woken": RecipeBug(watch_of_a_range_is_not_woken, 0, "WatchesAreInTime"),
    "woken_watch_begins_too_late": RecipeBug(woken_watch_begins_too_late, 0, "WatchesAreInTime"),
    "unknown_candidate_stays": RecipeBug(unknown_candidate_stays, 10, "NothingIsHeldForEver"),
    "barrier_counts_the_dead": RecipeBug(barrier_counts_the_dead, 7, "BarrierCountsTheLiving"),
    "end_of_a_lease_is_forgotten": RecipeBug(end_of_a_lease_is_forgotten, 0, "EqualReplicas"),
    "rejected_transaction_leaves_something": RecipeBug(rejected_transaction_leaves_something, 3, "StoreIsAsTold"),
    "watch_misses_the_compacted_revision": RecipeBug(watch_misses_the_compacted_revision, 5, "WatchesMissNothing"),
    "barrier_opens_twice": RecipeBug(barrier_opens_twice, 22, "BarrierOpensOnce"),
    "claim_is_left_behind": RecipeBug(claim_is_left_behind, 8, "NothingIsHeldForEver"),
    "dead_letter_is_lost": RecipeBug(dead_letter_is_lost, 7, "NoJobIsLost"),
    "try_lock_takes_what_is_held": RecipeBug(try_lock_takes_what_is_held, 0, "OneHolderAtATime"),
    "lock_is_not_given_back": RecipeBug(lock_is_not_given_back, 10, "NothingIsHeldForEver"),
}

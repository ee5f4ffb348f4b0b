"""The key-value store and its recipes at their limits: the figures of docs/recipes.md.

    python -m lab.benchmarks.store_limits [--directory DIR] [--keys N]

First the state machine alone: commands of 1 MiB, 100,000 sessions, then how much processor time the longest `apply` of
each kind takes with a million keys, how long a full collection of garbage then takes, and a put with 10,000 watches of
other keys. At last a quorum of one with a directory of its own: a thousand locks that are held, 512 programs that wait
for one lock, and workers of a queue.
"""

import argparse
import asyncio
import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

from pykraft.client import configure
from pykraft.machine import Applied, Replicated
from pykraft.machine.records import CommandRecord, OpenRecord, TickRecord, encode_log_record
from pykraft.machine.replica import SESSIONS_MAX, MachineReplica
from pykraft.recipes import JobQueue, KeyValues, KeyValueStore, Put, Transaction, lock
from pykraft.recipes.key_value_commands import (
    FOUND_MAX,
    Compact,
    Delete,
    EndLease,
    Get,
    GrantLease,
    KeepLease,
    KeyValueCommand,
    StoreOperation,
)
from pykraft.recipes.key_values import DELETED_MAX
from pykraft.types import Epoch, Offset

LEASES: Final = 10_000
WATCHES: Final = 9_999
PUTS: Final = 2_000
JOBS: Final = 1_000


class Machine:
    """A store without a log."""

    def __init__(self) -> None:
        self.values = KeyValues()
        self.time_ms = 0
        self._offset = 0

    def apply(self, command: KeyValueCommand) -> tuple[Any, float]:
        """The result, and how long it took a replica to have its bytes, in ms of processor time."""
        self._offset += 1
        context = Applied(self._offset, 1, self.time_ms, 0)
        begin_s = time.thread_time()
        deadline_ms = self.values.deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.time_ms:
            self.values.elapse(context)
        result = self.values.apply(command, context)
        KeyValues.results.serialize(result)
        return result, (time.thread_time() - begin_s) * 1_000

    def worst(self, what: str, commands: Iterator[KeyValueCommand]) -> None:
        """Print the longest and the mean time of these."""
        took_ms = [self.apply(command)[1] for command in commands]
        print(f"{what:<52} {max(took_ms):>8.2f} ms, mean {sum(took_ms) / len(took_ms):.3f} ms", flush=True)


def key(number: int) -> str:
    return f"k/{number:07d}"


def measure_applies(keys: int) -> None:
    """The state machine with so many keys."""
    random, machine = Random(1), Machine()
    order = random.sample(range(keys), keys)
    for at in range(0, keys, 100):
        machine.apply(Transaction(tuple(Put(key(one), f"{one:090d}") for one in order[at : at + 100])))

    def put() -> KeyValueCommand:
        return Transaction((Put(key(random.randrange(keys)), "x"),))

    def full_lease() -> int:
        lease: int = machine.apply(GrantLease(10_000))[0]
        chosen = random.sample(range(keys // 2, keys), DELETED_MAX - 100)
        for at in range(0, len(chosen), 100):
            machine.apply(Transaction(tuple(Put(key(one), "x", lease) for one in chosen[at : at + 100])))
        return lease

    print(f"{len(machine.values.space.keys):,} keys", flush=True)
    machine.worst("put", (put() for _ in range(PUTS)))
    fresh = iter(range(10 * keys, 11 * keys))
    machine.worst(
        "128 new keys", (Transaction(tuple(Put(key(next(fresh)), "x") for _ in range(128))) for _ in range(20))
    )
    small = [f"s/{number:06d}" for number in range(2 * FOUND_MAX)]
    for name in random.sample(small, len(small)):
        machine.apply(Transaction((Put(name, "x"),)))
    gets = [tuple(Get(small[at + each * 1_000], "", 1_000) for each in range(10)) for at in range(0, 10_000, 1_000)]
    machine.worst(f"get {FOUND_MAX:,} items", map(Transaction, gets))
    deletes = [Delete(key(at * DELETED_MAX), key((at + 1) * DELETED_MAX)) for at in range(10)]
    machine.worst(f"delete {DELETED_MAX:,} keys in a row", (Transaction((one,)) for one in deletes[:5]))
    others: list[StoreOperation] = [*gets[0][:2], *(Put(key(at), "x" * 8_000) for at in range(125))]
    machine.worst("and get 2,000 items, and put 1 MB", (Transaction((one, *others)) for one in deletes[5:]))
    machine.worst("forget 100,000 changes", iter([Compact(machine.values.space.revision + 1)]))
    leases = [full_lease() for _ in range(3)]
    machine.worst(f"end a lease of {DELETED_MAX - 100:,} keys", map(EndLease, leases))
    machine.worst("and each record until they are gone", (Transaction(()) for _ in range(80)))
    many = [machine.apply(GrantLease(10_000))[0] for _ in range(LEASES)]
    machine.worst(f"keep one of {LEASES:,} leases", (KeepLease(random.choice(many)) for _ in range(PUTS)))
    machine.time_ms = 20_000
    machine.worst(f"{LEASES:,} leases end, at each of 20 records", (Transaction(()) for _ in range(20)))
    begin_s = time.thread_time()
    gc.collect()
    print(f"a full collection of garbage {(time.thread_time() - begin_s) * 1_000:.0f} ms")
    without = min(timed(machine, put) for _ in range(5))
    for number in range(WATCHES):
        machine.values.watches.open(f"watched/{number}", None, int).wait()
    beside = min(timed(machine, put) for _ in range(5))
    print(
        f"a put {without:.1f} µs; with {WATCHES:,} watches of other keys {beside:.1f} µs ({beside / without:.2f} times)"
    )


def timed(machine: Machine, command: Callable[[], KeyValueCommand]) -> float:
    """Microseconds of processor time for each of many."""
    commands = [command() for _ in range(PUTS)]
    return sum(machine.apply(one)[1] for one in commands) / PUTS * 1_000


async def measure_recipes(folder: Path) -> None:
    """Locks and jobs on a quorum of one."""
    config = configure(folder, node_id=1, voters={1: "127.0.0.1:0"})
    async with Replicated(config, KeyValues()) as node:
        store = KeyValueStore(node)
        for workers in (8, 256):
            queue, done = JobQueue(store, f"queue {workers}"), 0
            await asyncio.gather(*(queue.put("") for _ in range(JOBS)))

            async def work(queue: JobQueue = queue) -> None:
                nonlocal done
                while done < JOBS:
                    async with queue.take():
                        done += 1

            begin_s, begin = time.perf_counter(), node.node.log_end_offset
            tasks = [asyncio.create_task(work()) for _ in range(workers)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            took_s, records = time.perf_counter() - begin_s, node.node.log_end_offset - begin
            print(
                f"{workers} workers: {JOBS / took_s:,.0f} jobs a second, {records / JOBS:.2f} records a job", flush=True
            )
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

        async def turn() -> None:
            async with lock(store, "tool"):
                pass

        begin_s = time.perf_counter()
        await asyncio.gather(*(turn() for _ in range(512)))
        print(f"512 waiters of one lock took turns in {time.perf_counter() - begin_s:.2f} s", flush=True)
        async with AsyncExitStack() as stack:
            begin_s = time.perf_counter()
            for number in range(1_000):
                await stack.enter_async_context(lock(store, f"tool {number}"))
            print(f"1,000 locks were taken in {time.perf_counter() - begin_s:.2f} s", flush=True)
            begin = node.node.log_end_offset
            await asyncio.sleep(10)
            print(f"1,000 idle locks write {(node.node.log_end_offset - begin) / 10:.1f} records a second", flush=True)


def measure_large_commands() -> None:
    """Transactions of nearly 1 MiB, as a leader reads them and every replica applies them."""
    machine, serde = Machine(), KeyValues.commands
    for what, text in (("plain", "x"), ("line feeds", "\n"), ("not ASCII", "é")):
        value = text * (8_000 // len(text.encode()))
        command = Transaction(tuple(Put(key(at), value) for at in range(127)))
        data = serde.serialize(command)
        begin_s = time.thread_time()
        for _ in range(20):
            serde.deserialize(data)
        read_ms = (time.thread_time() - begin_s) / 20 * 1_000
        machine.worst(f"put {len(data):,} bytes, {what}, read in {read_ms:.1f} ms", (command for _ in range(20)))


def measure_sessions() -> None:
    """One replica with as many sessions as there may be."""
    replica = MachineReplica(KeyValues())
    for number in range(SESSIONS_MAX):
        replica.apply(encode_log_record(OpenRecord(0, number.to_bytes(16, "big"))), Offset(number), Epoch(1))
    command = KeyValues.commands.serialize(Transaction((Put("k", "x"),)))
    took_s = []
    for number in range(SESSIONS_MAX):
        record = encode_log_record(CommandRecord(number // 100, number, 0, 0, command))
        begin_s = time.thread_time()
        replica.apply(record, Offset(SESSIONS_MAX + number), Epoch(1))
        took_s.append(time.thread_time() - begin_s)
    mean_us, most_ms = sum(took_s) / len(took_s) * 1e6, max(took_s) * 1_000
    print(f"{SESSIONS_MAX:,} sessions: a command {mean_us:.0f} µs, at most {most_ms:.1f} ms")
    for what, times_ms in (("none ends", range(2_000, 22_000, 1_000)), ("all end", range(100_000, 125_000, 1_000))):
        swept_ms = []
        for time_ms in times_ms:
            begin_s = time.thread_time()
            replica.apply(encode_log_record(TickRecord(time_ms)), Offset((1 << 30) + time_ms), Epoch(1))
            swept_ms.append((time.thread_time() - begin_s) * 1_000)
        print(f"  {what}: a record at most {max(swept_ms):.2f} ms, {replica.sessions_count:,} are left")


def main(chosen: argparse.Namespace) -> None:
    # These before there is much that the garbage collector has to look at.
    measure_large_commands()
    measure_sessions()
    measure_applies(chosen.keys)
    folder = Path(tempfile.mkdtemp(dir=chosen.directory))
    try:
        asyncio.run(measure_recipes(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The key-value store and its recipes at their limits.")
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--keys", type=int, default=950_000)
    main(parser.parse_args())

"""Something that happens once in each interval, on one of all nodes: whoever writes the tick first was chosen.

Source: ours.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence

from pykraft.recipes.coordination import namespace
from pykraft.recipes.key_value_commands import Condition, Put, StoreOperation
from pykraft.recipes.key_value_store import KeyValueStore


async def cron(
    store: KeyValueStore,
    name: str,
    every_s: float,
    effects: Sequence[StoreOperation] = (),
    *,
    now: Callable[[], float] = time.time,
) -> AsyncGenerator[int, None]:
    """Yield the ticks for which this node was chosen; ``tick * every_s`` is the time of a tick, by the wall clock.

    Every node runs this. A tick that nobody is there for is left out. ``effects`` are written with the tick, once, such
    as `pykraft.recipes.JobQueue.put_operation`: then the work is done even if this node dies.

    Errors: those of the store.
    """
    key = namespace("cron", name) + "last"
    while True:
        tick = int(now() // every_s) + 1
        await asyncio.sleep(max(0.0, tick * every_s - now()))
        item = await store.get(key)
        if item is None or int(item.value) < tick:
            same = [Condition(key, "modified", "==", 0 if item is None else item.modified)]
            if (await store.transact([Put(key, str(tick)), *effects], same)).succeeded:
                yield tick

"""What people build on a replicated state machine: a key-value store, and locks, elections, queues and more on it.

Each is short and complete: use it, or copy it and change it.
"""

from pykraft.recipes.cache import Cache
from pykraft.recipes.coordination import Barrier, HeldLock, holder_of, leader_of, leaders, leadership, lock, try_lock
from pykraft.recipes.cron import cron
from pykraft.recipes.job_queue import JobQueue, TakenJob
from pykraft.recipes.key_value_commands import (
    Condition,
    Delete,
    Get,
    Item,
    KeyChange,
    Put,
    Transaction,
    TransactionResult,
    prefix,
    value_of,
)
from pykraft.recipes.key_value_store import KeyValueStore
from pykraft.recipes.key_values import KeyValues
from pykraft.recipes.rate_limiter import RateLimiter

__all__ = [
    "Barrier",
    "Cache",
    "Condition",
    "Delete",
    "Get",
    "HeldLock",
    "Item",
    "JobQueue",
    "KeyChange",
    "KeyValueStore",
    "KeyValues",
    "Put",
    "RateLimiter",
    "TakenJob",
    "Transaction",
    "TransactionResult",
    "cron",
    "holder_of",
    "leader_of",
    "leaders",
    "leadership",
    "lock",
    "prefix",
    "try_lock",
    "value_of",
]

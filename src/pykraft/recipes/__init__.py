"""What people build on a replicated state machine: a key-value store, and locks, elections, barriers and queues on it.

Each is short and complete: use it, or copy it and change it.
"""

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
)
from pykraft.recipes.key_value_store import KeyValueStore
from pykraft.recipes.key_values import KeyValues

__all__ = [
    "Condition",
    "Delete",
    "Get",
    "Item",
    "KeyChange",
    "KeyValueStore",
    "KeyValues",
    "Put",
    "Transaction",
    "TransactionResult",
    "prefix",
]

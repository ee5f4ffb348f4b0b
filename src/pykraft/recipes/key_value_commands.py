"""What a program asks of the key-value store, as data: operations, conditions, transactions, leases.

A key is a text of 1 to `KEY_SIZE_BYTES_MAX` bytes in UTF-8, a value up to `VALUE_SIZE_BYTES_MAX` bytes of any kind: as
text, in which bytes that are not UTF-8 are escaped as by `os.fsdecode`. ``end`` makes a range of keys: None is the key
alone, "" is all keys from it on, any other text excludes itself; `prefix` makes the range of a prefix. A revision is
the number of a change of the store, from 1 on.

Invariants: a command that `check_command` accepts is one that every replica reads and judges alike. Equal bytes are one
text.

Source: ours (ADR 087, ADR 183); PEP 383 for bytes in text.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from pykraft.client.arguments import INT64_MAX, whole_number
from pykraft.errors import UsageError

KEY_SIZE_BYTES_MAX: Final = 1_024
VALUE_SIZE_BYTES_MAX: Final = 32_768
OPERATIONS_MAX: Final = 128
"""Conditions, and operations of either kind, of one transaction."""
GET_LIMIT_MAX: Final = 1_000
FOUND_MAX: Final = 10_000
"""Items that all operations of one transaction may get."""
FOUND_BESIDE_DELETE_MAX: Final = 2_000
"""The same if one of them deletes a range: either takes ten milliseconds, in which nothing else is applied."""
NUMBER_SIZE_BYTES: Final = 16
"""Digits that `Put` adds to a numbered key."""
LEASE_TTL_MS_MIN: Final = 1_000
LEASE_TTL_MS_MAX: Final = 86_400_000

ItemField: TypeAlias = Literal["value", "created", "modified", "version", "lease"]
ComparisonOperator: TypeAlias = Literal["==", "!=", "<", ">"]


# Not a dataclass: 10,000 of these are in one result, and take a quarter of the time, of the garbage collector none.
class Item(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """A key with its value: the revisions that created and last changed it, how often it was put, its lease or 0."""

    key: str
    value: str
    created: int
    modified: int
    version: int
    lease: int = 0

    @property
    def data(self) -> bytes:
        """The bytes of the value, which need not be UTF-8."""
        return value_bytes(self.value)


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key was put (``item``) or deleted (None), by the change with this revision."""

    revision: int
    key: str
    item: Item | None


@dataclass(frozen=True, slots=True)
class KeyFormer:
    """What the next change in a snapshot replaced."""

    item: Item


@dataclass(frozen=True, slots=True)
class Condition:
    """Compares a field of a key's item. A key that does not exist has the value None, and 0 in all other fields."""

    key: str
    field: ItemField
    operator: ComparisonOperator
    operand: str | int | None


@dataclass(frozen=True, slots=True)
class Get:
    """Find up to ``limit`` items, in the order of their keys, as they are before the transaction."""

    key: str
    end: str | None = None
    limit: int = GET_LIMIT_MAX


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key; it is deleted when its lease ends. ``numbered`` adds the revision to the key, as 16 digits."""

    key: str
    value: str
    lease: int = 0
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key or a range."""

    key: str
    end: str | None = None


StoreOperation: TypeAlias = Get | Put | Delete


@dataclass(frozen=True, slots=True)
class Transaction:
    """If all conditions hold, carry out ``then``, and otherwise ``otherwise``: all of it, at one revision."""

    then: tuple[StoreOperation, ...]
    conditions: tuple[Condition, ...] = ()
    otherwise: tuple[StoreOperation, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """Whether the conditions held, the revision afterwards, what each Get found, and how many keys were deleted."""

    succeeded: bool
    revision: int
    found: tuple[tuple[Item, ...], ...] = ()
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class GrantLease:
    """Open a lease; its result is the lease's id."""

    ttl_ms: int


@dataclass(frozen=True, slots=True)
class KeepLease:
    """The lease lives for its whole time again, from now on."""

    lease: int


@dataclass(frozen=True, slots=True)
class EndLease:
    """End a lease, and delete its keys; nothing if it has ended."""

    lease: int


@dataclass(frozen=True, slots=True)
class Compact:
    """Forget the changes before this revision; no key changes."""

    revision: int


KeyValueCommand: TypeAlias = Transaction | GrantLease | KeepLease | EndLease | Compact
KeyValueResult: TypeAlias = TransactionResult | int | None


def value_of(data: str | bytes) -> str:
    """The value that has these bytes, for `Put` and `Condition`; `Item.data` is the way back."""
    return data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data


def value_bytes(value: str) -> bytes:
    """The bytes of a value."""
    return value.encode("utf-8", "surrogateescape")


def numbered_key(text: str, number: int) -> str:
    """The key of a numbered put at this revision: such keys are in the order of their numbers."""
    return f"{text}{number:016d}"


def prefix(text: str) -> tuple[str, str]:
    """The range of all keys that begin with this text: ``store.range(*prefix("jobs/"))``."""
    for at in range(len(text) - 1, -1, -1):
        if text[at] < "\U0010ffff":
            # What follows the last character of plain text is no character of its own: a half of a pair of UTF-16.
            after = "\ue000" if text[at] == "\ud7ff" else chr(ord(text[at]) + 1)
            return text, text[:at] + after
    return text, ""


def check_command(command: object) -> None:
    """Errors: UsageError for what no replica should have to judge."""
    match command:
        case Transaction():
            for one in (command.conditions, command.then, command.otherwise):
                if type(one) is not tuple or len(one) > OPERATIONS_MAX:
                    raise UsageError(f"{one!r:.100}: a transaction has tuples of at most {OPERATIONS_MAX} of each kind")
            for condition in command.conditions:
                _check_condition(condition)
            for operation in (*command.then, *command.otherwise):
                _check_operation(operation)
            for branch in (command.then, command.otherwise):
                _check_together(branch)
        case GrantLease():
            whole_number("ttl_ms", command.ttl_ms, least=LEASE_TTL_MS_MIN, most=LEASE_TTL_MS_MAX)
        case KeepLease() | EndLease():
            whole_number("lease", command.lease, least=0, most=INT64_MAX)
        case Compact():
            whole_number("revision", command.revision, least=1, most=INT64_MAX)
        case _:
            raise UsageError(f"{command!r} is not a command of the key-value store")


def check_range(key: object, end: object = None) -> None:
    """Errors: UsageError for what is not a key, or not a range."""
    check_text("key", key, most=KEY_SIZE_BYTES_MAX, least=0 if end is not None else 1)
    if end is not None:
        check_text("end", end, most=KEY_SIZE_BYTES_MAX)


def check_text(name: str, text: object, *, most: int, least: int = 0, errors: str = "strict") -> None:
    """Errors: UsageError for what is not text of this size, in bytes of UTF-8."""
    if not isinstance(text, str):
        raise UsageError(f"{name} = {text!r}: must be text")
    try:
        size_bytes = len(text.encode("utf-8", errors))
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} = {text!r}: must be text that UTF-8 can express") from error
    if not least <= size_bytes <= most:
        raise UsageError(f"{name} of {size_bytes} bytes: must have {least} to {most}")


def _check_value(name: str, value: object) -> None:
    check_text(name, value, most=VALUE_SIZE_BYTES_MAX, errors="surrogateescape")
    # Escapes of two bytes that are a letter in UTF-8 would be a second text for it.
    if isinstance(value, str) and not value.isascii() and value_of(value_bytes(value)) != value:
        raise UsageError(f"{name} = {value!r:.100}: must have bytes as value_of makes them")


def _check_condition(condition: Condition) -> None:
    if not isinstance(condition, Condition):
        raise UsageError(f"{condition!r} is not a condition")
    check_range(condition.key)
    if condition.operator not in {"==", "!=", "<", ">"}:
        raise UsageError(f"operator = {condition.operator!r}: must be ==, !=, < or >")
    if condition.field == "value":
        if condition.operand is not None:
            _check_value("operand", condition.operand)
    elif condition.field in {"created", "modified", "version", "lease"}:
        whole_number("operand", condition.operand, least=0, most=INT64_MAX)
    else:
        raise UsageError(f"field = {condition.field!r}: must be value, created, modified, version or lease")


def _check_together(operations: tuple[StoreOperation, ...]) -> None:
    numbered = [one.key for one in operations if isinstance(one, Put) and one.numbered]
    if len(set(numbered)) < len(numbered):
        # The number is the revision of the transaction, so all of them would be one key.
        raise UsageError(f"{max(numbered, key=numbered.count)!r} is numbered twice: put one of them by itself")
    found = sum(one.limit if one.end is not None else 1 for one in operations if isinstance(one, Get))
    deletes_range = any(isinstance(one, Delete) and one.end is not None for one in operations)
    if found > (most := FOUND_BESIDE_DELETE_MAX if deletes_range else FOUND_MAX):
        beside = " beside a Delete of a range" if deletes_range else ""
        raise UsageError(f"its operations get up to {found} items: at most {most}{beside}, so lower their limits")


def _check_operation(operation: StoreOperation) -> None:
    if isinstance(operation, Put):
        most = KEY_SIZE_BYTES_MAX - NUMBER_SIZE_BYTES if operation.numbered else KEY_SIZE_BYTES_MAX
        check_text("key", operation.key, least=1, most=most)
        _check_value("value", operation.value)
        whole_number("lease", operation.lease, least=0, most=INT64_MAX)
        if type(operation.numbered) is not bool:
            raise UsageError(f"numbered = {operation.numbered!r}: must be True or False")
    elif isinstance(operation, Get | Delete):
        check_range(operation.key, operation.end)
        if isinstance(operation, Get):
            whole_number("limit", operation.limit, least=1, most=GET_LIMIT_MAX)
    else:
        raise UsageError(f"{operation!r} is not an operation: it is a Get, a Put or a Delete")

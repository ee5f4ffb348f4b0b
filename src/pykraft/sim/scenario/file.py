"""Reads scenarios from TOML files, strictly, and writes one as such a file; several files can be combined.

A file has the tables of `pykraft.sim.scenario.scenario.Scenario` and lists only what differs. With several files, the
later one wins, field by field. Their ``faults`` tables are merged into one; if no file has such a table, the kinds of
the default scenario remain. Invariant: a scenario that was read can be run. A misspelled key, a wrong type or an
impossible value raises a UsageError that names the file and the key.

Source: FoundationDB's ``tests/fast/*.toml``; the TOML 1.0 specification.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_type_hints

from pykraft.errors import UsageError
from pykraft.sim.scenario.scenario import DEFAULT, KINDS, Scenario
from pykraft.text.words import did_you_mean

FILE_SIZE_BYTES_MAX: Final = 64 * 1024
VOTERS_MAX: Final = 9
PRODUCERS_MAX: Final = 8
GROUPS_MAX: Final = 5
MEMBERS_MAX: Final = 5
"""Of each group."""
_SUFFIX: Final = ".toml"
_FAULTS: Final = "faults"


def shipped_names() -> list[str]:
    """Names of the scenarios in the package, sorted."""
    entries = files("pykraft.sim.scenario.shipped").iterdir()
    return sorted(entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX))


def load(shipped: Sequence[str] = (), paths: Sequence[Path] = ()) -> Scenario:
    """Combine these shipped scenarios, then these files; the default scenario without any.

    Errors: UsageError.
    """
    name = "+".join((*shipped, *(path.stem for path in paths))) or DEFAULT.name
    texts = (*map(_shipped, shipped), *map(_file, paths))
    return combined(name, ((what, _parse(what, text)) for what, text in texts))


def combined(name: str, sources: Iterable[tuple[str, dict[str, Any]]]) -> Scenario:
    """The scenario of these tables; a message calls each source by its name. Errors: UsageError."""
    scenario = replace(DEFAULT, name=name)
    faults: dict[str, float] | None = None
    for what, tables in sources:
        if _FAULTS in tables:
            faults = {**(faults or {}), **_faults(what, tables.pop(_FAULTS))}
        scenario = _with_tables(what, scenario, tables)
    return scenario if faults is None else replace(scenario, faults=faults)


def _shipped(name: str) -> tuple[str, str]:
    if name not in shipped_names():
        raise UsageError(_no_such(f"scenario {name!r}", name, shipped_names()))
    return f"scenario {name}", files("pykraft.sim.scenario.shipped").joinpath(name + _SUFFIX).read_text("utf-8")


def _no_such(what: str, name: str, names: Iterable[str]) -> str:
    return f"there is no {what}: choose one of {', '.join(sorted(names))}{did_you_mean(name, names)}"


def _file(path: Path) -> tuple[str, str]:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_SIZE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}: give one of {', '.join(shipped_names())}, or a file like those"
        ) from error
    if len(content) > FILE_SIZE_BYTES_MAX:
        raise UsageError(f"{path}: a scenario has at most {FILE_SIZE_BYTES_MAX} bytes")
    try:
        return str(path), content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text") from error


def _parse(what: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{what}: is not TOML: {error}") from error


def _faults(what: str, table: object) -> dict[str, float]:
    for kind, weight in _table(what, _FAULTS, table).items():
        key = f"{_FAULTS}.{kind}"
        if kind not in KINDS:
            raise UsageError(f"{what}: {_no_such(f'kind of fault {kind!r} ({key})', kind, KINDS)}")
        if not _is_number(weight) or not 0 <= weight <= 1_000:
            raise UsageError(f"{what}: {key} = {weight!r}: a weight is a number from 0 to 1000")
    assert isinstance(table, dict)
    return {kind: float(weight) for kind, weight in table.items()}


def _with_tables(what: str, scenario: Scenario, tables: Mapping[str, object]) -> Scenario:
    known = {field.name for field in fields(Scenario)} - {"name", _FAULTS}
    changed: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in known:
            raise UsageError(f"{what}: {_no_such(f'table {name!r}', name, {*known, _FAULTS})}")
        changed[name] = _with_values(what, name, getattr(scenario, name), _table(what, name, table))
    return replace(scenario, **changed)


def _with_values(what: str, name: str, former: Any, table: Mapping[str, object]) -> Any:  # noqa: ANN401
    """``former`` with these values; it may be of any class of table."""
    hints = get_type_hints(type(former))
    values = {}
    for field, value in table.items():
        key = f"{name}.{field}"
        if field not in hints:
            raise UsageError(f"{what}: {_no_such(key, field, hints)}")
        values[field] = _value(what, key, hints[field], value)
    made = replace(former, **values)
    for low, high in _PAIRS:
        if low in hints and high in hints and getattr(made, low) > _least(getattr(made, high)):
            raise UsageError(f"{what}: {name}.{low} is greater than {name}.{high}")
    return made


_PAIRS: Final = (
    ("turn_us_min", "turn_us_max"),
    ("slow_turn_us_min", "slow_turn_us_max"),
    ("latency_us_min", "latency_us_max"),
    ("period_us_min", "period_us_max"),
)
"""Fields of one table that are the two ends of a range."""


def _least(value: int | tuple[int, ...]) -> int:
    return min(value) if isinstance(value, tuple) else value


def _table(what: str, name: str, table: object) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{what}: {name} is a table: write [{name}] and its keys below it")
    return table


def _value(what: str, key: str, hint: object, value: object) -> object:
    expected, is_right = _EXPECTED[hint]
    is_list = isinstance(value, list)
    least, most = _LEAST.get(key, 0), _MOST.get(key, _MOST_OF[hint])
    numbers: list[Any] = value if isinstance(value, list) else [value]
    if (
        is_list != (hint not in (int, float))
        or not all(map(is_right, numbers))
        or not (numbers or key in _MAY_BE_EMPTY)
    ):
        raise UsageError(f"{what}: {key} = {value!r}: give {expected}")
    if not all(least <= number <= most for number in numbers):
        raise UsageError(f"{what}: {key} = {value!r}: from {least} to {most} is possible")
    return tuple(numbers) if is_list else numbers[0]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_whole(value) or isinstance(value, float)


_EXPECTED: Final[Mapping[object, tuple[str, Callable[[object], bool]]]] = {
    int: ("a whole number", _is_whole),
    float: ("a number", _is_number),
    tuple[int, ...]: ("a list of whole numbers, of which one is drawn", _is_whole),
    tuple[int, ...] | None: ("a list of whole numbers", _is_whole),
}
_MAY_BE_EMPTY: Final = frozenset({"pace.only"})
_MOST_OF: Final[Mapping[object, float]] = {
    int: 900_000_000,
    float: 1,
    tuple[int, ...]: 900_000_000,
    tuple[int, ...] | None: 900_000_000,
}
"""Upper bounds: a quarter of an hour in microseconds for integers; 1 for floats, which are probabilities or parts."""
_MOST: Final[Mapping[str, float]] = {
    "cluster.voters": VOTERS_MAX,
    "cluster.observers": VOTERS_MAX,
    "membership.newcomers_max": VOTERS_MAX,
    "pace.skew_max": 0.9,
    "work.values_max": 1_000,
    "work.value_size_bytes_max": 100_000,
    "producers.count": PRODUCERS_MAX,
    "groups.count": GROUPS_MAX,
    "groups.members": MEMBERS_MAX,
    "producers.values_max": 1_000,
    "producers.value_size_bytes_max": 100_000,
}
_LEAST: Final[Mapping[str, int]] = {
    "quorum.segment_size_bytes": 1_024,
    "quorum.index_size_bytes_max": 24,
    **dict.fromkeys(
        (
            "cluster.voters",
            "course.start_us_max",
            "course.heal_us",
            "quorum.election_timeout_ms",
            "quorum.fetch_timeout_ms",
            "quorum.election_backoff_max_ms",
            "quorum.request_timeout_ms",
            "quorum.fetch_size_bytes_max",
            "quorum.scrub_interval_ms",
            "storage.turn_us_min",
            "work.period_us",
            "snapshots.pieces_max",
            "snapshots.slice_size_bytes_max",
            "snapshots.clean_interval_ms",
            "work.values_max",
            "work.value_size_bytes_max",
            "producers.remembered_max",
            "producers.accumulated_batches_max",
            "producers.period_us",
            "producers.values_max",
            "producers.value_size_bytes_max",
            "producers.sleep_us_max",
            "groups.members",
            "groups.session_ms",
            "groups.rebalance_ms",
            "groups.period_us",
            "groups.pause_us_max",
            "pace.period_us_min",
            "pace.operations_max",
            "pace.storm_restarts_max",
        ),
        1,
    ),
}
"""Fields that must not be 0."""


def scenario_text(scenario: Scenario) -> str:
    """The text, one table after the other; empty for the default scenario. The name is not part of it."""
    tables = []
    for table in fields(Scenario):
        value, default = getattr(scenario, table.name), getattr(DEFAULT, table.name)
        if table.name == "name" or value == default:
            continue
        changed = value if isinstance(value, Mapping) else _changed(value, default)
        lines = "".join(f"{_key(name)} = {_toml(each)}\n" for name, each in changed.items())
        tables.append(f"[{table.name}]\n{lines}")
    return "\n".join(tables)


def _changed(table: Any, default: Any) -> dict[str, Any]:  # noqa: ANN401
    values = {field.name: (getattr(table, field.name), getattr(default, field.name)) for field in fields(table)}
    return {name: value for name, (value, usual) in values.items() if value != usual}


def _key(name: str) -> str:
    return f'"{name}"' if " " in name or "-" in name else name


def _toml(value: Any) -> str:  # noqa: ANN401
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else repr(value)

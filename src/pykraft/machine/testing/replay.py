"""Applies what a world applied once more, in a process with another hash seed, time zone and clock.

All replicas of a world share one process, so they agree on the order of a set, on the number of the process and on the
date; real nodes do not. Invariant: a state machine that depends on state, command and context alone gives the same
answers and digests again.

Source: ours; FoundationDB's and madsim's runs with the same seed, whose traces must be equal.
"""

import multiprocessing
import os
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Self
from unittest.mock import patch

from pykraft.errors import CommandRejectedError
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.testing.recorded import AppliedCall, digest_of

OTHER: Final = {"PYTHONHASHSEED": "77", "TZ": "Pacific/Kiritimati"}
OTHER_CLOCK_S: Final = 400 * 86_400
"""How much later it is there."""


class Replayer:
    """The other process; it starts with the first world."""

    def __init__(self, make: Callable[[], StateMachine[Any, Any]]) -> None:
        self._machine = make()
        try:
            self._made: bytes | None = pickle.dumps(make)
        except (pickle.PicklingError, AttributeError, TypeError):
            self._made = None  # made within a function: no other process finds it
        self._pipe: Connection | None = None
        self._process: multiprocessing.context.SpawnProcess | None = None
        self.count = 0
        """Commands that were applied once more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pipe is not None and self._process is not None:
            self._pipe.close()
            self._process.join()

    def difference(self, calls: Sequence[AppliedCall]) -> str | None:
        """Apply the commands of one world; returns the first difference, if there is one."""
        if self._made is None:
            return None
        pipe = self._pipe or self._start(self._made)
        serialize = self._machine.commands.serialize
        pipe.send([call if call.number < 0 else replace(call, command=serialize(call.command)) for call in calls])
        self.count += len(calls)
        found: str | None = pipe.recv()
        return found

    def _start(self, made: bytes) -> Connection:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=serve, args=(theirs, made), daemon=True)
        with patch.dict(os.environ, OTHER):
            self._process.start()
        theirs.close()
        return self._pipe


def serve(pipe: Connection, made: bytes) -> None:
    """The main function of that process: answer until the other end is closed."""
    time.tzset()
    time.time, time.time_ns = _later(time.time, OTHER_CLOCK_S), _later(time.time_ns, OTHER_CLOCK_S * 10**9)
    make: Callable[[], StateMachine[Any, Any]] = pickle.loads(made)  # noqa: S301 - of the process that started this one
    while True:
        try:
            calls: list[AppliedCall] = pipe.recv()
        except EOFError:
            return
        pipe.send(first_difference(make(), calls))


def first_difference(machine: StateMachine[Any, Any], calls: Sequence[AppliedCall]) -> str | None:
    """What this machine does in another way than those that made the calls, whose commands are bytes here."""
    for call in calls:
        mine = ""
        if not isinstance(call.command, bytes):
            machine.elapse(call.context)
        else:
            try:
                result = machine.apply(machine.commands.deserialize(call.command), call.context)
                mine = repr(machine.results.serialize(result))
            except CommandRejectedError as error:
                mine = f"rejected: {error}"
        if mine != call.answer:
            return f"another process answered {call.story} with {mine}, those of the world with {call.answer}"
        if digest_of(machine) != call.digest:
            return f"the state of another process is another one after {call.story} at offset {call.offset}"
    return None


def _later(clock: Callable[[], Any], by: int) -> Callable[[], Any]:
    return lambda: clock() + by

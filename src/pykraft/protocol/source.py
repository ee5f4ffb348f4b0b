"""The source text of one generated function, while it is written.

This module handles indentation, fresh local names and the constants of the function; `build` compiles it. The generated
code depends only on our own schema tables, never on a peer or a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class FunctionSource:
    """Lines of a function, its constants and its local names."""

    def __init__(self, signature: str) -> None:
        self._lines = [f"def {signature}:"]
        self._depth = 1
        self._constants: dict[str, object] = {}
        self._locals = 0

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add ``head``; lines added within the block are indented below it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self) -> str:
        """A local name not used before."""
        self._locals += 1
        return f"v{self._locals}"

    def constant(self, value: object) -> str:
        """The name of a new global of the function with this value."""
        name = f"K{len(self._constants)}"
        self._constants[name] = value
        return name

    def build(self, name: str, origin: str, names: dict[str, object]) -> Callable[..., Any]:
        """Compile the lines; ``names`` are further globals, ``origin`` appears in tracebacks.

        The first line must define ``name``.
        """
        scope = {**names, **self._constants}
        exec(compile("\n".join(self._lines), f"<{origin}>", "exec"), scope)  # noqa: S102 (own tables, no foreign input)
        function = scope[name]
        assert callable(function)
        return function

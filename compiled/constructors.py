"""Gives each dataclass of a module a constructor in its source, so that mypyc compiles it.

``dataclass`` makes its constructor at run time, as text that Python interprets. In a compiled module that costs more
than in a plain one, and a record passes a hundred such values. So the compiled copy of a module has

- ``__init__`` written out, in the line below the class, and ``init=False`` for the decorator; equality, hash, order,
  ``repr``, ``replace`` and ``fields`` still come from ``dataclass``;
- ``__reduce__`` in the next line, because values of native classes have no ``__dict__`` that pickle could keep;
- after its last line, `pykraft.value.freeze` for the classes that refuse assignments at run time: a native class could
  not be made at all if its own constructor were refused.

Invariant: every other line stays where it was, so tracebacks of compiled code name the right lines.

Source: ours (ADR 116); CPython's ``dataclasses``; mypyc's ``DataClassBuilder``.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class _Dataclass:
    """A class statement, the call that decorates it, and the words of that call."""

    node: ast.ClassDef
    call: ast.Call
    words: Mapping[str, bool]

    @property
    def is_value(self) -> bool:
        """True for `pykraft.value.value`, which checks no assignment at run time."""
        return ast.unparse(self.call.func) == "value"

    @property
    def is_frozen(self) -> bool:
        """True for a class that refuses assignments at run time."""
        return self.words.get("frozen", False) and not self.is_value


def with_constructors(text: str) -> str:
    """The source of the same module for mypyc."""
    lines = text.split("\n")
    tree = ast.parse(text)
    classes = sorted(_dataclasses(tree), key=lambda each: each.node.lineno)
    if not classes:
        return text
    own_fields: dict[str, list[ast.AnnAssign]] = {}
    for each in classes:
        fields = [field for base in each.node.bases for field in own_fields.get(ast.unparse(base), [])]
        fields += _fields(each.node)
        own_fields[each.node.name] = fields
        indent = " " * each.node.col_offset
        assert each.call.lineno == each.call.end_lineno, "a decorator is one line"
        lines[each.call.lineno - 1] = f"{indent}@dataclass({_words(each)})"
        below = each.node.end_lineno or 0
        for number, method in enumerate((_init(each, fields), _reduce(fields))):
            _put(lines, below + number, f"{indent}    {method}")
    lines += [f"freeze({each.node.name})" for each in classes if each.is_frozen]
    # mypyc looks for the exceptions in the types of fields among the module's own names.
    added = (
        "builtins import BaseException, Exception",
        "dataclasses import dataclass",
        "pykraft.value import freeze, remade",
    )
    first = next(each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom))
    lines[(first.end_lineno or 0) - 1] += "".join(f"; from {names}" for names in added)
    return "\n".join(lines) + "\n"


def _dataclasses(tree: ast.Module) -> Iterator[_Dataclass]:
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("value", "dataclass"):
                words = {str(word.arg): bool(ast.literal_eval(word.value)) for word in call.keywords}
                yield _Dataclass(node, call, words)


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    annotated = [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
    return [each for each in annotated if "ClassVar" not in ast.unparse(each.annotation)]


def _words(each: _Dataclass) -> str:
    """The decorator's arguments: without slots, which native classes have anyway."""
    chosen = ["init=False"]
    has_eq = each.words.get("eq", True)
    if each.words.get("frozen") and has_eq:
        chosen.append("unsafe_hash=True")
    chosen += [f"{word}={each.words[word]}" for word in ("kw_only", "eq", "order") if word in each.words]
    return ", ".join(chosen)


def _init(each: _Dataclass, fields: list[ast.AnnAssign]) -> str:
    parameters: list[str] = []
    assignments: list[str] = []
    for field in fields:
        name, annotation = ast.unparse(field.target), ast.unparse(field.annotation)
        options = _options(field.value)
        if options is None:
            default = "" if field.value is None else f" = {ast.unparse(field.value)}"
            parameters.append(f"{name}: {annotation}{default}")
            assignments.append(f"self.{name} = {name}")
        elif "default_factory" in options:
            factory = ast.unparse(options["default_factory"])
            parameters.append(f"{name}: {annotation} | None = None")
            assignments.append(f"self.{name} = ({factory})() if {name} is None else {name}")
        else:
            assert "init" in options, f"{each.node.name}.{name}: what is it made of?"
    if any(
        isinstance(statement, ast.FunctionDef) and statement.name == "__post_init__" for statement in each.node.body
    ):
        assignments.append("self.__post_init__()")
    keywords = "*, " if each.words.get("kw_only") and parameters else ""
    body = "; ".join(assignments) or "pass"
    return f"def __init__(self, {keywords}{', '.join(parameters)}) -> None: {body}"


def _reduce(fields: list[ast.AnnAssign]) -> str:
    names = [ast.unparse(field.target) for field in fields if "init" not in (_options(field.value) or {})]
    values = ", ".join(f'"{name}": self.{name}' for name in names)
    return f"def __reduce__(self) -> tuple[object, ...]: return (remade, (type(self), {{{values}}}))"


def _options(default: ast.expr | None) -> dict[str, ast.expr] | None:
    """The arguments of ``field(...)``; None for any other default."""
    if isinstance(default, ast.Call) and ast.unparse(default.func) == "field":
        return {str(word.arg): word.value for word in default.keywords}
    return None


def _put(lines: list[str], at: int, line: str) -> None:
    """Put a line in the place of an empty one, or at the end."""
    if at >= len(lines):
        lines.append(line)
        return
    assert not lines[at].strip(), f"line {at + 1} is needed for a method: {lines[at]}"
    lines[at] = line

"""The text of Java's properties files, and where each value comes from.

Of a key that is given twice the last value counts.

Source: ``java.util.Properties``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pykraft.errors import ConfigError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{0,4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Properties(dict[str, str]):
    """Keys and values; ``origins`` says for each key where its value comes from, for messages.

    That is the file and the line on which the value begins, or the option that gave it. ``source`` is the file alone,
    for messages about a key that is not there.
    """

    def __init__(self, source: str = "") -> None:
        super().__init__()
        self.source = source
        self.origins: dict[str, str] = {}
        self.bare: set[str] = set()
        """Keys whose line has nothing else: Java takes them for keys with an empty value."""

    def give(self, key: str, value: str, origin: str) -> None:
        """Set a value, with where it comes from."""
        self[key] = value
        self.origins[key] = origin
        self.bare.discard(key)


def is_bare(properties: Mapping[str, str], key: str) -> bool:
    """Whether the line of this key has neither a separator nor a value; False if nobody knows."""
    return isinstance(properties, Properties) and key in properties.bare


def origin_of(properties: Mapping[str, str], *keys: str) -> str:
    """Where the value of the first of these keys that is given comes from; empty if nobody knows."""
    if not isinstance(properties, Properties):
        return ""
    return next((properties.origins[key] for key in keys if key in properties.origins), properties.source)


@contextmanager
def with_origins(properties: Mapping[str, str]) -> Iterator[None]:
    """Within this block, an error about a property says where its value comes from. Errors: ConfigError."""
    try:
        yield
    except ConfigError as error:
        origin = error.origin or origin_of(properties, error.key)
        raise type(error)(error.key, error.value, error.allowed, origin=origin) from error.__cause__


def parse_properties(text: str, source: str = "") -> Properties:
    r"""Read Java's properties format: ``key=value``, ``key: value``, ``key value``; ``#`` and ``!`` begin a comment.

    A line that ends in an odd number of backslashes goes on in the next one. Escapes are ``\t \n \r \f``, ``\uXXXX``
    (UTF-16: pairs are one character), and a backslash before any other character, which then stands for itself.

    ``source`` is the name of the file, for messages.

    Errors: ConfigError for a broken unicode escape.
    """
    properties = Properties(source)
    for number, line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        origin = f"{source}: line {number}" if source else f"line {number}"
        key = _unescape(raw_key, raw_key, origin)
        properties.give(key, _unescape(key, raw_value, origin), origin)
        if raw_key == line.rstrip(_BLANKS):
            properties.bare.add(key)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending, begun = "", 0
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        begun = begun if pending else number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield begun, pending + line
        pending = ""
    if pending:
        yield begun, pending


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, at the first separator that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _unescape(key: str, text: str, origin: str) -> str:
    """The text with its escapes resolved; ``key`` and ``origin`` are for the error."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ConfigError(key, text, r"\u must be followed by four hexadecimal digits", origin=origin)
        return chr(int(code[1:], 16))

    try:
        return _ESCAPE.sub(one, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ConfigError(key, text, r"surrogates must come in pairs, \uD83D\uDE00", origin=origin) from None

"""The file of SCRAM's users: what is kept of their passwords, by mechanism and name, as JSON.

``{"SCRAM-SHA-256": {"alice": {"salt": BASE64, "stored_key": BASE64, "server_key": BASE64, "iterations": 4096}}}``

Invariants: the file never has a password; it is replaced as a whole, so that a reader sees it before or after.

Source: RFC 5802 §5; Kafka's ``ScramCredential``, ``ScramParser`` (KIP-900) for ``--add-scram``.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from pykraft.errors import UsageError
from pykraft.process.extras import imported_for
from pykraft.security.exchanges import ITERATIONS_MAX, Scram
from pykraft.security.files import read_bounded
from pykraft.security.settings import Security

USERS_FILE: Final = "pykraft.scram.users"
"""The property that names the file."""
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MIN: Final = 4_096
"""As in Kafka, and its default."""
SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
_FIELDS: Final = ("salt", "stored_key", "server_key")
_ADD: Final = re.compile(r"\s*(?P<mechanism>[\w-]+)\s*=\s*\[(?P<options>.*)\]\s*")
_OPTION: Final = re.compile(r'\s*(\w+)\s*=\s*(?:"([^"]*)"|([^",]*))\s*(?:,|$)')
_FORM: Final = "SCRAM-SHA-256=[name=alice,password=…], and iterations=… and salt=… if you like"

ScramUsers: TypeAlias = dict[str, dict[str, Scram]]
"""What is kept, by mechanism and name."""


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user as ``--add-scram`` gives it; without a salt, a random one is made."""

    mechanism: str
    name: str
    password: str
    iterations: int = ITERATIONS_MIN
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"NewUser({self.mechanism}, {self.name!r})"

    def add_to(self, users: ScramUsers) -> None:
        """Keep what SCRAM needs of the password, in place of what is kept. Errors: UsageError."""
        with imported_for("a user of SCRAM"):
            from scramp import ScramClient, ScramException, ScramMechanism
        try:
            name = str(ScramClient([self.mechanism], self.name, self.password).username)  # as it comes from a client
            made = ScramMechanism(self.mechanism).make_auth_info(self.password, self.iterations, self.salt)
        except ScramException as error:
            raise UsageError(f"user {self.name!r}: {error}") from error
        users.setdefault(self.mechanism, {})[name] = made


def parse_new_user(text: str) -> NewUser:
    """Read ``SCRAM-SHA-256=[name=alice,password=secret]``. Errors: UsageError, which does not quote it."""
    match = _ADD.fullmatch(text)
    if match is None or match["mechanism"] not in SCRAM:
        raise UsageError(f"--add-scram: it has the form {_FORM}; of mechanisms there are {', '.join(SCRAM)}")
    options, at, given = dict[str, str](), 0, match["options"]
    while at < len(given) and (option := _OPTION.match(given, at)) is not None:
        options[option[1]], at = option[2] if option[3] is None else option[3].strip(), option.end()
    if at < len(given) or not {"name", "password"} <= options.keys() <= {"name", "password", "iterations", "salt"}:
        raise UsageError(f"--add-scram: it has the form {_FORM}")
    iterations = options.get("iterations", str(ITERATIONS_MIN))
    if not re.fullmatch("[0-9]{1,9}", iterations) or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise UsageError(f"--add-scram: iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    try:
        salt = b64decode(options["salt"], validate=True) if "salt" in options else None
    except ValueError as error:
        raise UsageError("--add-scram: the salt is base64") from error
    if not options["name"] or not options["password"]:
        raise UsageError("--add-scram: neither name nor password is empty")
    return NewUser(match["mechanism"], options["name"], options["password"], int(iterations), salt)


def users_files(security: Security) -> set[Path]:
    """The files that a listener's properties name."""
    return {Path(text) for text in (security.of_mechanism(each, USERS_FILE) for each in SCRAM) if text}


def read_users(path: Path) -> ScramUsers:
    """What the file has. Errors: ValueError for another content, OSError."""
    content = read_bounded(path, SIZE_BYTES_MAX)
    try:
        document = json.loads(content)
        return {
            mechanism: {name: _scram(kept) for name, kept in of_mechanism.items()}
            for mechanism, of_mechanism in document.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("it is no file that `pykraft users` wrote") from error


def write_users(path: Path, users: ScramUsers) -> None:
    """Replace the file; only its owner may read it. Errors: UsageError."""
    document = {
        mechanism: {name: _document(users[mechanism][name]) for name in sorted(users[mechanism])}
        for mechanism in sorted(users)
        if users[mechanism]
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _scram(kept: Mapping[str, object]) -> Scram:
    salt, stored, server = (b64decode(str(kept[name]), validate=True) for name in _FIELDS)
    iterations = kept["iterations"]
    if not isinstance(iterations, int) or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError("iterations")
    return salt, stored, server, iterations


def _document(kept: Scram) -> dict[str, object]:
    salt, stored, server, iterations = kept
    texts = (b64encode(part).decode() for part in (salt, stored, server))
    return {**dict(zip(_FIELDS, texts, strict=True)), "iterations": iterations}

"""The file with the rules of an authorizer.

A line of the file is what follows ``kafka-acls --add``, so that rules can be taken over from a script::

    --allow-principal User:reader --operation Read --topic __raft_performance_test
    --deny-principal User:* --deny-host 10.0.0.9 --operation All --cluster

Source: Kafka's ``AclCommand`` (flags, ``--producer``, ``--consumer``); KIP-290 (prefixed names).
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from pykraft.errors import ConfigError
from pykraft.security.acls import (
    ACL_FILE_KEY,
    ANY,
    CLUSTER_NAME,
    Acl,
    AclOperation,
    Authorizer,
    ResourceType,
    principal_text,
)
from pykraft.security.files import FromFiles

ACLS_MAX: Final = 10_000
"""Rules in a file: a decision looks at all rules of its kind of resource."""
_OF_PRODUCERS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_OF_CONSUMERS: Final = (AclOperation.READ, AclOperation.DESCRIBE)
_BY_NAME: Final = {operation.value.lower(): operation for operation in AclOperation}


class AclFile(FromFiles):
    """The rules of an authorizer, as its file has them."""

    what = "rules"

    def __init__(self, path: Path, authorizer: Authorizer) -> None:
        """Errors: ConfigError for a file that cannot be used."""
        self._path = path
        self._authorizer = authorizer
        super().__init__([path])

    def make(self) -> None:
        try:
            text = self._path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(ACL_FILE_KEY, str(self._path), f"the file cannot be read: {reason}") from error
        self._authorizer.acls = parse_acls(text, str(self._path))

    @property
    def in_use(self) -> str:
        return f"{len(self._authorizer.acls)} {self.what}"


def parse_acls(text: str, path: str) -> tuple[Acl, ...]:
    """The rules of a file; ``#`` begins a comment. Errors: ConfigError that names the line."""
    found: list[Acl] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
            found += _rules(words) if words else ()
        except ValueError as error:
            raise ConfigError(ACL_FILE_KEY, path, f"line {number}: {error}") from error
        if len(found) > ACLS_MAX:
            raise ConfigError(ACL_FILE_KEY, path, f"line {number}: at most {ACLS_MAX} rules are possible")
    return tuple(found)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> _Parser:
    parser = _Parser(prog="", add_help=False, allow_abbrev=False)
    for option in ("allow-principal", "deny-principal", "allow-host", "deny-host", "operation", "topic", "group"):
        parser.add_argument(f"--{option}", action="append", default=[])
    for option in ("cluster", "producer", "consumer", "idempotent"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--resource-pattern-type", choices=("literal", "prefixed"), default="literal")
    return parser


_PARSER: Final = _parser()


def _rules(words: Sequence[str]) -> Iterator[Acl]:
    """The rules of one line. Errors: ValueError."""
    given = _PARSER.parse_args(words)
    targets = list(_targets(given))
    if not given.allow_principal and not given.deny_principal:
        raise ValueError("give --allow-principal or --deny-principal")
    if not targets:
        raise ValueError("give --topic, --group or --cluster")
    for is_allowed, principals, hosts in (
        (True, given.allow_principal, given.allow_host),
        (False, given.deny_principal, given.deny_host),
    ):
        if hosts and not principals:
            raise ValueError("a host belongs to a principal: give --allow-principal or --deny-principal, too")
        for principal in principals:
            for host in hosts or (ANY,):
                for resource, name, operation in targets:
                    yield Acl(
                        is_allowed=is_allowed,
                        principal=principal_text(principal),
                        host=host,
                        operation=operation,
                        resource=resource,
                        name=name,
                        is_prefix=given.resource_pattern_type == "prefixed" and resource is not ResourceType.CLUSTER,
                    )


def _targets(given: Any) -> Iterator[tuple[ResourceType, str, AclOperation]]:  # noqa: ANN401 - argparse's
    if given.producer or given.consumer:
        if given.operation or not given.topic or (given.consumer and not given.group):
            raise ValueError("--producer has a --topic, --consumer a --topic and a --group, and neither an --operation")
        for operation in (_OF_PRODUCERS if given.producer else ()) + (_OF_CONSUMERS if given.consumer else ()):
            yield from ((ResourceType.TOPIC, name, operation) for name in given.topic)
        if given.consumer:
            yield from ((ResourceType.GROUP, name, AclOperation.READ) for name in given.group)
        if given.idempotent:
            yield ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE
        return
    for operation in [_operation(word) for word in given.operation] or (AclOperation.ALL,):
        yield from ((ResourceType.TOPIC, name, operation) for name in given.topic)
        yield from ((ResourceType.GROUP, name, operation) for name in given.group)
        if given.cluster:
            yield ResourceType.CLUSTER, CLUSTER_NAME, operation


def _operation(word: str) -> AclOperation:
    found = _BY_NAME.get(word.lower().replace("_", ""))
    if found is None:
        raise ValueError(f"{word} is no operation: {', '.join(operation.value for operation in AclOperation)}")
    return found

"""Who may do what: rules, and the authorizer that decides by them; `pykraft.security.acl_file` reads them.

Invariants: a super user may do everything; else a rule that denies counts before all that allow; else nothing is
allowed that no rule allows. An `Authorizer` keeps no decision: it reads its rules for each one.

Source: Kafka's ``StandardAuthorizerData`` (order, implied operations, ``allow.everyone.if.no.acl.found``),
``AclEntry``; KIP-290 (prefixed names).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pykraft.errors import ConfigError
from pykraft.security.principal import PRINCIPAL_TYPE, Principal

AUTHORIZER_KEY: Final = "authorizer.class.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's authorizer; naming it switches ours on, which decides in the same way."""
SUPER_USERS_KEY: Final = "super.users"
ALLOW_EVERYONE_KEY: Final = "allow.everyone.if.no.acl.found"
ACL_FILE_KEY: Final = "pykraft.acl.file"
VOTER_PRINCIPALS_KEY: Final = "pykraft.voter.principals"
ANY: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
RIGHTS_SHOWN_MAX: Final = 5


class AclOperation(Enum):
    """What somebody wants to do, by Kafka's names."""

    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class ResourceType(Enum):
    """What it is done to."""

    CLUSTER = "Cluster"
    GROUP = "Group"
    TOPIC = "Topic"


_IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""Who is allowed one of these is allowed this, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One rule; ``principal`` is Kafka's text, and ``*`` in place of a host or name stands for any."""

    is_allowed: bool
    principal: str
    host: str
    operation: AclOperation
    resource: ResourceType
    name: str
    is_prefix: bool = False

    def __str__(self) -> str:
        name = f"{self.name}{ANY}" if self.is_prefix else self.name
        return f"{self.operation.value} on {self.resource.value}:{name}" + (
            "" if self.host == ANY else f" from {self.host}"
        )

    def covers(self, name: str) -> bool:
        """Whether it is about the resource with this name."""
        return name.startswith(self.name) if self.is_prefix else self.name in (ANY, name)

    def matches(self, principal: str, host: str, operation: AclOperation) -> bool:
        """Whether it is about this principal at this host, and decides about the operation."""
        if self.principal not in (principal, _ANYBODY) or self.host not in (host, ANY):
            return False
        if self.operation in (operation, AclOperation.ALL):
            return True
        return self.is_allowed and self.operation in _IMPLIED_BY.get(operation, ())


_ANYBODY: Final = f"{PRINCIPAL_TYPE}:{ANY}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """The properties of an authorizer.

    ``super_users`` are principals, such as ``User:CN=operator``; ``acl_file`` has the rules, each what follows
    ``kafka-acls --add``. Errors: ConfigError.
    """

    super_users: AbstractSet[str] = frozenset()
    acl_file: str | Path | None = None
    allows_without_acl: bool = False
    """Whether everybody may do to a resource what they like while no rule is about it."""

    def __post_init__(self) -> None:
        if isinstance(self.super_users, str):
            raise ConfigError(SUPER_USERS_KEY, self.super_users, "it is a set of principals")
        try:
            for user in self.super_users:
                principal_text(user)
        except ValueError as error:
            users = ";".join(sorted(self.super_users))
            raise ConfigError(SUPER_USERS_KEY, users, f"{error}, and ; separates them") from error
        if self.acl_file is not None and "\0" in str(self.acl_file):
            raise ConfigError(ACL_FILE_KEY, self.acl_file, "a file")

    @staticmethod
    def of(text: Callable[[str], str]) -> AuthorizerSettings | None:
        """What the properties ask for, of which ``text`` returns the value by the name; None without an authorizer.

        Errors: ConfigError.
        """
        kind = text(AUTHORIZER_KEY)
        given = {key: text(key) for key in (SUPER_USERS_KEY, ALLOW_EVERYONE_KEY, ACL_FILE_KEY)}
        if kind not in ("", STANDARD_AUTHORIZER):
            raise ConfigError(AUTHORIZER_KEY, kind, f"{STANDARD_AUTHORIZER}: there is no other here")
        for key, value in given.items():
            if value and not kind:
                raise ConfigError(key, value, f"it has no effect without {AUTHORIZER_KEY}={STANDARD_AUTHORIZER}")
        if not kind:
            return None
        everyone, path = given[ALLOW_EVERYONE_KEY].lower(), given[ACL_FILE_KEY]
        if everyone not in ("", "false", "true"):
            raise ConfigError(ALLOW_EVERYONE_KEY, everyone, "one of false, true")
        users = frozenset(user.strip() for user in given[SUPER_USERS_KEY].split(";") if user.strip())
        return AuthorizerSettings(
            super_users=users, acl_file=Path(path) if path else None, allows_without_acl=everyone == "true"
        )


class Authorizer:
    """Decides by the rules that were read last."""

    def __init__(self, settings: AuthorizerSettings, acls: Sequence[Acl] = ()) -> None:
        self._settings = settings
        self._by_resource: Mapping[ResourceType, Sequence[Acl]] = {}
        self.acls = acls

    @property
    def acls(self) -> Sequence[Acl]:
        """The rules; they may be replaced on any thread."""
        return self._acls

    @acls.setter
    def acls(self, acls: Sequence[Acl]) -> None:
        found: dict[ResourceType, list[Acl]] = defaultdict(list)
        for acl in acls:
            found[acl.resource].append(acl)
        self._acls, self._by_resource = acls, found

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether this principal at this address may do so; ``name`` is that of the topic or group."""
        who = str(principal)
        if who in self._settings.super_users:
            return True
        found = [acl for acl in self._by_resource.get(resource, ()) if acl.covers(name)]
        if not found:
            return self._settings.allows_without_acl
        decisive = [acl.is_allowed for acl in found if acl.matches(who, host, operation)]
        return bool(decisive) and all(decisive)

    def rights_of(self, principal: Principal) -> str:
        """What the rules let this principal do, in words that follow "may": a summary, at whatever address."""
        who = str(principal)
        if who in self._settings.super_users:
            return f"do everything, as one of {SUPER_USERS_KEY}"
        of_it = [acl for acl in self.acls if acl.principal in (who, _ANYBODY)]
        allowed = list(dict.fromkeys(str(acl) for acl in of_it if acl.is_allowed))
        shown = [", ".join(allowed[:RIGHTS_SHOWN_MAX])] if allowed else []
        if len(allowed) > RIGHTS_SHOWN_MAX:
            shown.append(f"{len(allowed) - RIGHTS_SHOWN_MAX} more")
        if self._settings.allows_without_acl:
            shown.append(f"everything to what no rule is about ({ALLOW_EVERYONE_KEY})")
        if not shown:
            return "do nothing"
        denied = ", as far as no rule denies it" if any(not acl.is_allowed for acl in of_it) else ""
        return f"do {' and '.join(shown)}{denied}"


def principal_text(text: str) -> str:
    """The same, if it names a user as Kafka does. Errors: ValueError."""
    kind, _, name = text.partition(":")
    if kind != PRINCIPAL_TYPE or not name:
        raise ValueError(f"{text} is no principal: one is {PRINCIPAL_TYPE}:NAME")
    return text


def voter_principals(text: str) -> tuple[tuple[int, str], ...]:
    """Node ids and principals of ``id@User:NAME;…``; an id may have several. Errors: ConfigError."""
    found = []
    for item in filter(None, map(str.strip, text.split(";"))):
        node_id, _, principal = item.partition("@")
        if not node_id.isdecimal():
            raise ConfigError(VOTER_PRINCIPALS_KEY, item, f"id@{PRINCIPAL_TYPE}:NAME, separated by ;")
        try:
            found.append((int(node_id), principal_text(principal)))
        except ValueError as error:
            raise ConfigError(VOTER_PRINCIPALS_KEY, item, str(error)) from error
    return tuple(found)

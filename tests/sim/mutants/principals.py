"""Bugs of who is who, in worlds whose nodes have certificates."""

from typing import Any

from pykraft.host.authorization import Guard
from tests.sim.mutants.patch import Patch, bug


@bug("ours until ADR 250: any certificate of the authority votes for all", "impostors")
def votes_count_without_their_principal(patch: Patch) -> None:
    """A candidate counts the vote of whoever answers at a voter's address."""
    impostor = Guard.impostor

    def unseen(guard: Guard, principal: Any, node_id: int, *, is_dialed: bool = False) -> str | None:
        return None if is_dialed else impostor(guard, principal, node_id)

    patch.setattr(Guard, "impostor", unseen)


@bug("ours until ADR 250", "impostors")
def acknowledgements_count_without_their_principal(patch: Patch) -> None:
    """A leader counts what whoever fetches in a voter's name has acknowledged."""
    patch.setattr(Guard, "checked", lambda guard, asker, header, message: message)


@bug("ours in ADR 251, almost: a decision costs microseconds each time", "impostors")
def decisions_outlast_their_rules(patch: Patch) -> None:
    """A node remembers what an authorizer has allowed, and asks it no more when the rules have changed."""
    allows = Guard.allows

    def kept(guard: Guard, asker: Any, *question: Any, **named: Any) -> bool:
        known = guard.__dict__.setdefault("known", {})
        key = (asker.end.principal, question)
        if key not in known:
            known[key] = allows(guard, asker, *question, **named)
        return bool(known[key])

    patch.setattr(Guard, "allows", kept)

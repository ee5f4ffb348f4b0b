"""ScramUsers, tokens and keys of a test, and the properties that name them."""

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from pykraft.security.settings import Security, SecurityProtocol
from pykraft.security.users import SCRAM, NewUser, read_users, write_users

USER = "alice"
PASSWORD = 'the word, "alone" \\ that = nobody; sees'  # noqa: S105 - a test's
_PACKAGE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def jaas(mechanism: str, *, user: str = USER, password: str = PASSWORD) -> str:
    """The login module for both ends: who this is, and, for PLAIN, who may come."""
    options = f"username={quoted(user)} password={quoted(password)}" if mechanism != "OAUTHBEARER" else ""
    if mechanism == "PLAIN":
        options += f" user_{USER}={quoted(PASSWORD)}"
    return f"{MODULES[mechanism]} required {options};"


@cache
def signing_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_set(*keys: ec.EllipticCurvePrivateKey, **more: Any) -> str:
    """A JWKS with the public halves of these keys."""
    found = [json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) for key in keys]
    return json.dumps({"keys": [{**each, "kid": f"key{at}", **more} for at, each in enumerate(found)]})


def token(
    *, key: Any = None, algorithm: str = "ES256", kid: str | None = "key0", lacks: str = "", **claims: Any
) -> str:
    """A signed token, good unless ``claims`` say otherwise; without the claim that it ``lacks``."""
    now = int(time.time())
    content = {"sub": USER, "iat": now, "exp": now + 3_600, **claims}
    content.pop(lacks, None)
    headers = None if kid is None else {"kid": kid}
    return jwt.encode(content, key or signing_key(), algorithm=algorithm, headers=headers)


def proofs(folder: Path, mechanism: str) -> dict[str, str]:
    """Properties of a listener with this mechanism, by which nodes dial each other, too; files are in the folder."""
    folder.mkdir(exist_ok=True)
    found = {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        f"{mechanism.lower()}.sasl.jaas.config": jaas(mechanism),
    }
    if mechanism == "OAUTHBEARER":
        (folder / "keys.json").write_text(key_set(signing_key()))
        (folder / "token").write_text(token())
        found["sasl.oauthbearer.jwks.endpoint.url"] = f"file://{folder}/keys.json"
        found["sasl.oauthbearer.token.endpoint.url"] = f"file://{folder}/token"
    if mechanism in SCRAM:
        users = read_users(folder / "users.json") if (folder / "users.json").exists() else {}
        NewUser(mechanism, USER, PASSWORD).add_to(users)
        write_users(folder / "users.json", users)
        found["pykraft.scram.users"] = str(folder / "users.json")
    return found


def sasl_security(folder: Path, mechanism: str, **given: str) -> Security:
    """The same as a `Security`; ``given`` has ``__`` for dots."""
    values = {**proofs(folder, mechanism), **{key.replace("__", "."): value for key, value in given.items()}}
    return Security.of_listener("A", SecurityProtocol.SASL_PLAINTEXT, values)

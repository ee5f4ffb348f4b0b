"""Values of properties that are elsewhere: ``${file:PATH:KEY}``, ``${env:NAME}`` and ``${dir:PATH:FILE}``.

A password then is in a file or variable of its own, such as a secret of Kubernetes, and the properties file may be
shown to anybody. As in Kafka, only providers that ``config.providers`` names are asked, so other values keep their
``${``. Invariant: a value that cannot be found is refused: an empty password would be another one.

Source: KIP-297, KIP-421, KIP-887; Kafka's ``ConfigTransformer``, ``FileConfigProvider``, ``EnvVarConfigProvider``,
``DirectoryConfigProvider``.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pykraft.config.properties import Properties, origin_of, parse_properties
from pykraft.errors import ConfigError

PROVIDERS_KEY: Final = "config.providers"
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""As in Kafka's ``ConfigTransformer``: provider, path if there is one, key."""
_SIZE_BYTES_MAX: Final = 1024 * 1024


def _of_file(path: str, key: str) -> str:
    return parse_properties(_text(path), path)[key]


def _of_directory(path: str, key: str) -> str:
    if Path(key).name != key:
        raise OSError(f"{key} is no name of a file")
    return _text(str(Path(path, key)))


def _of_environment(path: str, key: str) -> str:
    if path:
        raise OSError("the path is empty for a variable of the environment")
    return os.environ[key]


_CLASSES: Final[Mapping[str, Callable[[str, str], str]]] = {
    "org.apache.kafka.common.config.provider.FileConfigProvider": _of_file,
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": _of_directory,
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": _of_environment,
}


def resolve(properties: Properties) -> None:
    """Replace each ``${…}`` of a provider that ``config.providers`` names by what it stands for.

    Errors: ConfigError for a provider that is unknown, and for a value that cannot be found.
    """
    providers = _providers(properties)
    for key, value in list(properties.items()):

        def replacement(match: re.Match[str], key: str = key) -> str:
            provider = providers.get(match[1])
            if provider is None:
                return match[0]
            try:
                return provider(match[3] or "", match[4])
            except ConfigError:
                problem = f"{match[3]} is no file of properties"  # whose message may show a secret
            except KeyError:
                problem = f"there is no {match[4]}"
            except (OSError, UnicodeError) as error:
                problem = getattr(error, "strerror", None) or str(error)
            raise ConfigError(key, match[0], f"{match[0]}: {problem}", origin=origin_of(properties, key))

        properties[key] = _VARIABLE.sub(replacement, value)


def _providers(properties: Properties) -> dict[str, Callable[[str, str], str]]:
    """The providers by the names that ``config.providers`` gives them; these properties are taken away."""
    found = {}
    origin = origin_of(properties, PROVIDERS_KEY)
    for name in (item.strip() for item in properties.pop(PROVIDERS_KEY, "").split(",")):
        if not name:
            continue
        key = f"{PROVIDERS_KEY}.{name}.class"
        given = properties.pop(key, "").strip()
        if given not in _CLASSES:
            raise ConfigError(key, given, f"one of {', '.join(_CLASSES)}", origin=origin)
        found[name] = _CLASSES[given]
    for key in properties:
        if key.startswith(f"{PROVIDERS_KEY}."):
            allowed = f"it cannot be honoured; {PROVIDERS_KEY} names the providers, and each has its class"
            raise ConfigError(key, properties[key], allowed, origin=origin_of(properties, key))
    return found


def _text(path: str) -> str:
    with Path(path).open("rb") as file:
        content = file.read(_SIZE_BYTES_MAX + 1)
    if len(content) > _SIZE_BYTES_MAX:
        raise OSError(f"{path} has more than {_SIZE_BYTES_MAX} bytes")
    return content.decode()

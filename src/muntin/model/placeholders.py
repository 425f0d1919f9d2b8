"""Placeholders in pipeline files: ``${name}`` is given, ``${env:NAME}`` comes from the environment.

A secret is never written into a file nor given on the command line, where others may read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from muntin.model.errors import OptionError
from muntin.model.secrets import in_sight

NAME = re.compile(r"\$\{(\w+)\}")
_EITHER = re.compile(r"\$\{(env:)?(\w+)\}")


def names(value: str) -> set[str]:
    """The names that ``--set`` must give for a value.

    Example:
        >>> sorted(names("${out}/${env:HOME}/${day}"))
        ['day', 'out']
    """
    return set(NAME.findall(value))


def partly(value: str, given: Mapping[str, str]) -> str:
    """A value with those placeholders replaced that are given; the others stay.

    Example:
        >>> partly("${out}/${day}", {"out": "/data"})
        '/data/${day}'
    """
    return NAME.sub(lambda found: given.get(found.group(1), found.group()), value)


def check_secret(option: str, value: str) -> None:
    """Refuse a secret that doesn't come from the environment alone.

    Example:
        >>> check_secret("password", "${env:DB_PASSWORD}")
        >>> check_secret("dsn", "postgresql://me:${env:DB_PASSWORD}@host/db")
    """
    if in_sight(option, value):
        hint = f"write {option} = '${{env:NAME}}', and set NAME in the environment"
        raise OptionError(option, "(hidden)", "is a secret in plain sight", hint)


def filled(
    option: str, value: str, given: Mapping[str, str], environment: Mapping[str, str]
) -> str:
    """A value with its placeholders replaced.

    Example:
        >>> filled("path", "${out}/a", {"out": "/data"}, {})
        '/data/a'
    """
    check_secret(option, value)

    def one(found: re.Match[str]) -> str:
        secret, name = found.groups()
        source = environment if secret else given
        if name not in source:
            hint = f"set {name} in the environment" if secret else f"give --set {name}=..."
            raise OptionError(option, found.group(), "has no value", hint)
        return source[name]

    return _EITHER.sub(one, value)

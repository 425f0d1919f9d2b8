"""Secrets by reference: ``${env:NAME}`` and ``${file:PATH}`` in the value of an option.

The reference is what queries, tasks, plans and errors hold. Each process that opens a connection
reads the value itself, so the secret isn't sent from one process to another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from muntin.model.errors import OptionError
from muntin.model.secrets import REFERENCE

# The size limit of a file with a secret, in bytes.
_LARGEST = 1 << 20


def resolve(option: str, value: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace the references of an option's value by what they refer to, in one pass.

    Raises ``OptionError`` when a variable isn't set, or a file can't be read.
    """
    return REFERENCE.sub(lambda match: _read(option, match, environment), value)


def resolve_address(option: str, address: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace the references of an address, and encode what they refer to for its place there.

    An address that is one reference as a whole is returned as it is written.

    Example:
        >>> resolve_address("dsn", "postgresql://me:${env:PW}@host/db", {"PW": "a/b@c"})
        'postgresql://me:a%2Fb%40c@host/db'
    """
    if REFERENCE.fullmatch(address) or "://" not in address:
        return resolve(option, address, environment)
    # A colon separates a user from a password, both of which may be in one variable.
    return REFERENCE.sub(lambda match: quote(_read(option, match, environment), ":"), address)


def resolve_all(options: Mapping[str, str]) -> dict[str, str]:
    """Return options whose references are replaced, as by ``resolve``."""
    return {name: resolve(name, value) for name, value in options.items()}


def encode_user(pair: str) -> str:
    """Encode a user and password for an address; references stay.

    Example:
        >>> encode_user("me:a/b"), encode_user("me:${env:PW}")
        ('me:a%2Fb', 'me:${env:PW}')
    """
    parts, end = [], 0
    for match in REFERENCE.finditer(pair):
        parts += [quote(pair[end : match.start()], ":"), match.group()]
        end = match.end()
    return "".join([*parts, quote(pair[end:], ":")])


def _read(option: str, match: re.Match[str], environment: Mapping[str, str]) -> str:
    kind, name = match.groups()
    if kind == "env":
        if name not in environment:
            hint = f"set {name}, or name a file: ${{file:PATH}}"
            raise OptionError(option, match.group(), "isn't set in the environment", hint)
        return environment[name]
    try:
        with open(name, "rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST >> 20} MB")
        text = content.decode()
    except (OSError, ValueError) as error:
        problem = f"can't be read: {getattr(error, 'strerror', None) or error}"
        hint = "give a file that this user can read"
        raise OptionError(option, match.group(), problem, hint) from None
    # Editors and `echo` end a file with a line end, which is no part of a password.
    return text.removesuffix("\n").removesuffix("\r")

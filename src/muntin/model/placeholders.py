"""Placeholders in pipeline files: ``${name}`` from ``--set``, ``${env:NAME}`` from the environment.

Secrets must come from the environment, since others may read files and command lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from muntin.model.errors import OptionError
from muntin.model.secrets import in_sight

PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_HOLE = r"\$\{\w+\}"
# Tokens outside of quotes: comments, opening quotes, placeholders. Tokens inside: escapes, the
# closing quote, placeholders. In backticks, the only escape is a doubled backtick.
_OUTSIDE = re.compile(rf"--[^\n]*|/\*.*?\*/|\b[rR]['\"]|['\"`]|{_HOLE}", re.DOTALL)
_INSIDE = {
    "'": re.compile(rf"\\.|'|{_HOLE}", re.DOTALL),
    '"': re.compile(rf'\\.|"|{_HOLE}', re.DOTALL),
    "`": re.compile(rf"`|{_HOLE}", re.DOTALL),
}
_ESCAPES = ("'", '"', "`")
_EITHER = re.compile(r"\$\{(env:)?(\w+)\}")


def placeholder_names(value: str) -> set[str]:
    """Return the names that ``--set`` must define for a value.

    Example:
        >>> sorted(placeholder_names("${out}/${env:HOME}/${day}"))
        ['day', 'out']
    """
    return set(PLACEHOLDER.findall(value))


def partly(value: str, given: Mapping[str, str]) -> str:
    """Replace the placeholders of a value that have values; the others stay.

    Example:
        >>> partly("${out}/${day}", {"out": "/data"})
        '/data/${day}'
    """
    return PLACEHOLDER.sub(lambda found: given.get(found.group(1), found.group()), value)


class OutsideQuotesError(Exception):
    """A placeholder is outside of quotes, so that its value would be code; it is the message."""


def fill_expression(text: str, value_of: Callable[[str, int], str]) -> str:
    r"""Replace the placeholders of an expression of Spark SQL by data, with all escapes.

    Args:
        text: The expression.
        value_of: Returns the value of a placeholder, by its name and its position in the text.

    Raises:
        OutsideQuotesError: When a placeholder is outside of quotes, where its value would be code,
            or in a raw string, which has no escapes.

    Example:
        >>> print(fill_expression("page = '${p}'", lambda name, at: "it's"))
        page = 'it\'s'
    """
    pieces: list[str] = []
    copied, at, mark = 0, 0, ""
    while found := (_INSIDE[mark[-1]] if mark else _OUTSIDE).search(text, at):
        token, at = found.group(), found.end()
        if (hole := PLACEHOLDER.fullmatch(token)) is not None:
            if mark not in _ESCAPES:
                raise OutsideQuotesError(token)
            value = _as_data(value_of(hole.group(1), found.start()), mark)
            pieces += [text[copied : found.start()], value]
            copied = at
        elif mark:
            mark = "" if token == mark[-1] else mark
        elif token[-1] in "'\"`":
            mark = token
    return "".join([*pieces, text[copied:]])


def _as_data(value: str, mark: str) -> str:
    if mark == "`":
        return value.replace("`", "``")
    return value.replace("\\", "\\\\").replace(mark, f"\\{mark}")


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
    """Replace all placeholders of a value; refuse one without a value.

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

"""Placeholders in pipeline files: ``${name}`` from ``--set``, and references.

Secrets must be references (``${env:NAME}``, ``${file:PATH}``), since others may read pipeline files
and command lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from muntin.model.errors import OptionError
from muntin.model.references import resolve
from muntin.model.secrets import HIDDEN, REFERENCE, has_secret, reveals_secret

PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_PLACEHOLDER = r"\$\{\w+\}"
# Tokens outside of quotes: comments, opening quotes, placeholders. Spark's comments go on after a
# backslash at the end of a line, and may be nested. Tokens inside: escapes, the closing quote,
# placeholders. In backticks, the only escape is a doubled backtick.
_OUTSIDE = re.compile(rf"--(?:\\\n|[^\n])*|/\*|\b[rR]['\"]|['\"`]|{_PLACEHOLDER}", re.DOTALL)
_COMMENT_ENDS = re.compile(r"/\*|\*/")
_INSIDE = {
    "'": re.compile(rf"\\.|'|{_PLACEHOLDER}", re.DOTALL),
    '"': re.compile(rf'\\.|"|{_PLACEHOLDER}', re.DOTALL),
    "`": re.compile(rf"`|{_PLACEHOLDER}", re.DOTALL),
}
_PLACEHOLDER_OR_REFERENCE = re.compile(rf"{PLACEHOLDER.pattern}|\$\{{(?:env|file):[^{{}}]+\}}")
_QUOTES_WITH_ESCAPES = ("'", '"', "`")


def placeholder_names(value: str) -> set[str]:
    """Return the names that ``--set`` must define for a value.

    Example:
        >>> sorted(placeholder_names("${out}/${env:HOME}/${day}"))
        ['day', 'out']
    """
    return set(PLACEHOLDER.findall(value))


def fill_available(value: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a value that have values; the others stay.

    Example:
        >>> fill_available("${out}/${day}", {"out": "/data"})
        '/data/${day}'
    """
    return PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group()), value)


class OutsideQuotesError(Exception):
    """A placeholder is outside of quotes, so that its value would be code; it is the message."""


def fill_expression(text: str, value_of: Callable[[str, int], str]) -> str:
    r"""Replace the placeholders of an expression of Spark SQL by data, with all escapes.

    ``value_of`` gets a placeholder's name and position. Raises ``OutsideQuotesError`` where the
    value would be code, and in a raw string, which has no escapes.
    """
    pieces: list[str] = []
    # The ends of the text that was copied and of that which was read, and the token that opened
    # the present quotes: empty outside of them, and with an ``r`` in front for a raw string.
    copied, position, quote = 0, 0, ""
    while match := (_INSIDE[quote[-1]] if quote else _OUTSIDE).search(text, position):
        token, position = match.group(), match.end()
        if (placeholder := PLACEHOLDER.fullmatch(token)) is not None:
            if quote not in _QUOTES_WITH_ESCAPES:
                raise OutsideQuotesError(token)
            value = _escape(value_of(placeholder.group(1), match.start()), quote)
            pieces += [text[copied : match.start()], value]
            copied = position
        elif token == "/*":
            position = _find_end_of_comment(text, position)
        elif quote:
            quote = "" if token == quote[-1] else quote
        elif token[-1] in "'\"`":
            quote = token
    return "".join([*pieces, text[copied:]])


def _find_end_of_comment(text: str, position: int) -> int:
    """Return the position after a comment that is entered; comments may be nested."""
    depth = 1
    while depth and (match := _COMMENT_ENDS.search(text, position)):
        depth += 1 if match.group() == "/*" else -1
        position = match.end()
    return len(text) if depth else position


def _escape(value: str, quote: str) -> str:
    if quote == "`":
        return value.replace("`", "``")
    return value.replace("\\", "\\\\").replace(quote, f"\\{quote}")


def check_secret(option: str, value: str) -> None:
    """Refuse a secret that isn't a reference.

    Example:
        >>> check_secret("password", "${env:DB_PASSWORD}")
        >>> check_secret("dsn", "postgresql://me:${env:DB_PASSWORD}@host/db")
    """
    if reveals_secret(option, value):
        hint = f"write {option} = '${{env:NAME}}', and set NAME, or '${{file:PATH}}'"
        raise OptionError(option, HIDDEN, "is a secret in plain sight", hint)


def fill(
    option: str,
    value: str,
    values: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    keeps_secrets: bool = False,
) -> str:
    """Replace all placeholders of a value by ``--set`` or variables; refuse one without a value.

    With ``keeps_secrets``, secrets' references stay, for the process that uses the secret.
    """
    check_secret(option, value)
    is_kept = keeps_secrets and has_secret(option, value)

    def replace_one(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group() if is_kept else resolve(option, match.group(), environment)
        if name not in values:
            raise OptionError(option, match.group(), "has no value", f"give --set {name}=...")
        if REFERENCE.search(values[name]) is not None:
            hint = f"write the reference into the pipeline, in place of ${{{name}}}"
            raise OptionError("--set", name, "has a reference as its value", hint)
        return values[name]

    return _PLACEHOLDER_OR_REFERENCE.sub(replace_one, value)

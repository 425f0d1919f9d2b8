"""Detection of secrets, by the name of an option or by the form of a value, and their redaction.

Pipeline files, errors, the command line, the live page and the plans that Spark prints all use this
module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# In messages it stands for a value that is a secret.
HIDDEN = "(hidden)"
# A reference to a variable of the environment, or to a file.
REFERENCE = re.compile(r"\$\{(env|file):([^{}]{1,4096})\}")
# Text from outside is redacted, too, so the cost must stay in proportion to its length. A pattern
# begins with what is rare, and a repetition without a bound ends it: a failed attempt is short, and
# what a successful one reads isn't read again.
#
# Names of options that suggest a secret. Java reads this pattern, too.
SECRET_NAMES = (
    r"password|passwd|passphrase|pwd(?![a-z])|(?<![a-z])pw(?![a-z])|secret|token|credential|jaas"
    r"|(?:(?<![a-z])|user|db|admin|root|login|store|sql|redis)pass(?![a-z])|(?<![a-z])sas(?![a-z])"
    r"|private.?key|key\.pem|keystore\.key|key\.?store\.key|encryption[\w.\-]{0,40}key|access.?key"
    r"|account.?key|api.?key|user\.?info|authorization|shared.?access|sign(?:ing|ature).?key"
    r"|hmac.?key|license.?key|(?<![a-z])(?:bearer|jwt)(?![a-z])"
)
# The user of an address, and the password between it and the host. A port isn't a password; in the
# address of a database, everything before the last @ is one.
# Java recurses for repeated groups: unbounded repetition would overflow its stack on long text.
_PLAIN, _REFERENCE = r"[^:@/\s'\"$]*", r"(?:\$\{[^{}]*\}|\$(?!\{[^{}]*\}))"
_USER = rf"://{_PLAIN}(?:{_REFERENCE}{_PLAIN}){{0,100}}:"
_DATABASE = r"(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|redis|amqps?|jdbc:\w+)"
_ADDRESSES = (
    rf"\b{_DATABASE}{_USER}([^\s'\"]+)@",
    # The password ends at the last @ before the path; if there is none, at one after a slash.
    rf"{_USER}([^/?#\s'\"]+)@",
    rf"{_USER}(?!\d{{1,5}}[/?#])([^\s'\"]+)@",
    r"\bjdbc:oracle:\w+:[^/\s'\"]{0,200}/([^@\s'\"]+)@",
    # In web addresses, a user without a password is a token.
    r"\bhttps?://([^/?#:@\s'\"$]+):?@",
)
_ADDRESS = "|".join(_ADDRESSES)
_PARAMETER = (
    r"(?<![a-z])(?:pass|password|passwd|pwd|token|sig|signature)\s{0,100}=(?!>)\s{0,100}"
    r"'?([^\s'&]+)"
)
_PEM = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_WHOLE = rf"({_PEM}.*?(?:-----END [A-Z ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----|\Z))"
# The authentication scheme before the secret in a header.
_SCHEME = (
    r"(?:(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate|NTLM|OAuth|SharedKey|SharedAccessSignature"
    r"|AWS4-HMAC-SHA256)\s{1,100})?"
)

# The value of ``spark.sql.redaction.options.regex``, which Spark matches with names and values.
FOR_SPARK = rf"(?i)url|{SECRET_NAMES}|{_PEM}|{_ADDRESS}|{_PARAMETER}"

_NAME = re.compile(SECRET_NAMES, re.IGNORECASE)
_INSIDE = re.compile(rf"{_PARAMETER}|{_PEM_WHOLE}", re.IGNORECASE | re.DOTALL)
# A password of an address ends with an @. So each text without spaces and quotes is searched up to
# its last one, and every attempt that gets that far succeeds.
_IN_ADDRESS = re.compile(_ADDRESS, re.IGNORECASE)
_UNBROKEN = re.compile(r"(?:[^\s'\"$]+|\$(?:\{[^{}]{0,4096}\})?)+")
_KEY = re.compile(_PEM_WHOLE, re.DOTALL)
# name = 'value', name: value, "name"="value", as statements, files and plans have them. Where the
# text is itself a string of JSON, a part of an address or of a page, its quotes are written
# differently. Named groups aren't secrets.
# The name of an option that takes the path of a file ends with that word.
_WORD, _END = r"[\w.\-]{0,100}", r"[\w.\-]{0,100}+(?<![\-_.]file)"
_ENTITY = r"&quot;|&#3[49];|%2[27]"
_QUOTE = rf"(?:\\{{0,8}}['\"`]|{_ENTITY})"
_PAIR = re.compile(
    rf"(?:(?:{SECRET_NAMES}){_END}(?:{_QUOTE}?\s{{0,100}}(?::?=>?|%3D)"
    rf"|{_QUOTE}\s{{0,100}}(?::|%3A))"
    # After a slash it is the user of an address.
    rf"|(?<![\w.\-/]){_WORD}(?:{SECRET_NAMES}){_END}\s{{0,100}}(?::(?!//)|%3A(?!%2F))"
    # CREATE USER … PASSWORD 'secret'
    r"|\b(?:password|identified\s{1,100}by)\s{1,100}(?='))\s{0,100}(?:[bru]{1,2}(?=['\"]))?"
    # Quotes are doubled where a statement is itself a value.
    rf"{_SCHEME}(?:''(?![\s,;)'])((?:[^'\\]|\\.){{1,2000}})''"
    r"|(?P<escape>\\{1,8})(?P<quote>['\"])((?:(?!(?<!\\)(?P=escape)(?P=quote)).)+)"
    rf"|(?P<entity>{_ENTITY})((?:(?!(?P=entity)).)+)"
    r"|'((?:[^'\\]|\\.|'')+)'?|\"((?:[^\"\\]|\\.|\"\")+)\"?"
    # After a bar the value is on the lines below.
    r"|(?![|>][+\-\d]{0,2}(?:\s|\Z))([^\s,;)\]}'\"&]+(?:&(?![\w.\-]{1,100}=)[^\s,;)\]}'\"&]*)*))",
    re.IGNORECASE,
)
# A value of YAML on the lines below its name, which are indented further.
_BLOCK = re.compile(
    rf"^(?P<indent>[ \t]{{0,100}}+)(?:- )?['\"]?{_WORD}(?:{SECRET_NAMES}){_END}['\"]?:"
    r"(?:[ \t]{0,100}[|>][+\-\d]{0,2}[ \t]{0,100}\r?\n"
    r"((?:[ \t]{0,100}\n){0,100}(?P<deep>(?P=indent)[ \t]+)[^\n]*"
    r"(?:\n(?:(?P=deep)[^\n]*|[ \t]{0,100}(?=\n)))*)"
    r"|[ \t]{0,100}\r?\n(?P=indent)[ \t]{1,100}([^\s:#\-][^\n:]{0,5000})$)",
    re.IGNORECASE | re.MULTILINE,
)
# In prose, and after the name of an option, a secret is what is quoted, or a word with digits.
_SAID = (
    r"(?:'([^'\n]{1,2000})'|\"([^\"\n]{1,2000})\"|`([^`\n]{1,2000})`"
    r"|((?=[^\s\d]{0,100}\d)(?=[^\sa-z]{0,100}[a-z])[^\s'\"`]{6,}))"
)
_GAP = r"\s{1,100}"
_KEYS = r"(?:access|account|api|secret)"
_SPOKEN = rf"(?:password|passwd|passphrase|pwd|secret|token|{_KEYS}[ \-._]key)"
_PHRASE = re.compile(
    rf"\b{_SPOKEN}s?{_GAP}(?:(?:for|of){_GAP}\S{{1,60}}{_GAP})?(?:is|was|are){_GAP}"
    rf"(?:(?:now|still){_GAP})?(?:(?:set|changed){_GAP}to{_GAP})?{_SAID}"
    rf"|(?:(?:(?<!\S)--?[a-z\-]{{0,40}}|(?<=[_.])){_SPOKEN}|\b{_KEYS}[_.]key){_GAP}{_SAID}"
    # The user and the password of curl.
    rf"|\bcurl\b[^\n]{{0,300}}?\s(?:-u|--(?:proxy-)?user[\s=])\s{{0,100}}"
    r"['\"]?[^\s:'\"]{1,100}:([^\s'\"]+)"
    # An address within another one.
    r"|%3A%2F%2F[^\s%:@/]{0,200}%3A((?:(?!%40)[^\s@/]){1,200})%40"
    # The cookies of a header.
    r"|\bcookie\\{0,8}['\"]?\s{0,100}:\s{0,100}\\{0,8}['\"]?(?=[^\s=;]{1,200}=)([^\n'\"\\]+)",
    re.IGNORECASE,
)
# Tokens of JSON (JWT) all begin alike.
_BEARER = re.compile(
    r"\bBearer\s{1,100}([\w\-.~+/=]{6,})|\b(eyJ[\w\-]{5,1000}\.[\w\-]{1,8000}\.[\w\-]*)",
    re.IGNORECASE,
)


def names_secret(option: str) -> bool:
    """Return whether an option's name says that its value is a secret.

    Example:
        >>> [names_secret(n) for n in ("ssl.keystore.key", "fs.s3a.access.key", "key", "topic")]
        [True, True, False, False]
    """
    return _NAME.search(option) is not None


def reveals_secret(option: str, value: str) -> bool:
    """Return whether a value contains a secret that isn't a reference.

    Example:
        >>> reveals_secret("dsn", "postgresql://me:p/w@host/db")
        True
        >>> reveals_secret("dsn", "postgresql://me:${env:PASSWORD}@host:5432/db")
        False
    """
    return not all(REFERENCE.fullmatch(secret.strip()) for secret in _find_secrets(option, value))


def has_secret(option: str, value: str) -> bool:
    """Return whether a value contains a secret, or a reference to one.

    Example:
        >>> has_secret("sasl.password", "${env:PASSWORD}"), has_secret("path", "${env:HOME}/in")
        (True, False)
    """
    is_address = "://" in value and REFERENCE.search(value) is not None
    return is_address or bool(_find_secrets(option, value))


def list_references(values: Iterable[str]) -> frozenset[str]:
    """Return the references in texts.

    Example:
        >>> sorted(list_references(["${env:PW}", "http://me:${file:/run/pw}@host", "plain"]))
        ['${env:PW}', '${file:/run/pw}']
    """
    return frozenset(match.group() for value in values for match in REFERENCE.finditer(value))


def redact(text: str) -> str:
    """Replace secrets in a text by asterisks; every other character keeps its position.

    Example:
        >>> redact("dsn 'postgresql://me:sesame@host/db', password = 'sesame', topic = 't'")
        "dsn 'postgresql://me:******@host/db', password = '******', topic = 't'"
    """
    for pattern in (_KEY, _BLOCK, _PAIR, _PHRASE, _BEARER):
        text = pattern.sub(_mask, text)
    text = _UNBROKEN.sub(_mask_addresses, text) if "@" in text else text
    return _INSIDE.sub(_mask, text)


def _mask_addresses(match: re.Match[str]) -> str:
    searched, at, rest = match.group().rpartition("@")
    return _IN_ADDRESS.sub(_mask, searched + at) + rest


def _mask(match: re.Match[str]) -> str:
    text, start = match.group(), match.start()
    named = match.re.groupindex.values()
    for number, secret in enumerate(match.groups(), 1):
        if number in named or secret is None:
            continue
        if secret.strip() != HIDDEN and not REFERENCE.fullmatch(secret.strip()):
            low, high = match.start(number) - start, match.end(number) - start
            text = text[:low] + re.sub(r"[^\n]", "*", secret) + text[high:]
    return text


def _find_secrets(option: str, value: str) -> list[str]:
    if names_secret(option):
        return [value]
    matches = [*_IN_ADDRESS.finditer(value), *_INSIDE.finditer(value)]
    return ["".join(filter(None, match.groups())) for match in matches]

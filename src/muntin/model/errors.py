"""Every exception that muntin raises on purpose; a message says what to change."""

from __future__ import annotations


class MuntinError(Exception):
    """The root of all errors raised by muntin."""


class OptionError(MuntinError, ValueError):
    """An option has a value that can't work; raised before anything runs.

    Args:
        option: The option as the user writes it, for example ``slide``.
        value: The value that was given.
        problem: What is wrong with it.
        cure: What to write instead.

    Example:
        >>> print(OptionError("slide", "2 h", "is greater than the size", "use 1 hour or less"))
        slide='2 h' is greater than the size; use 1 hour or less
    """

    def __init__(self, option: str, value: object, problem: str, cure: str) -> None:
        self.option = option
        self.value = value
        self.problem = problem
        self.cure = cure
        super().__init__(f"{option}={value!r} {problem}; {cure}")


class SettingError(MuntinError):
    """A setting of the Spark session is missing or wrong; the message names it and its value."""


class SpecChangedError(MuntinError):
    """A checkpoint was written by another spec; the message names what differs."""


class StateCorruptedError(MuntinError):
    """A stored blob can't be read back as it was written."""


class PartitionError(MuntinError):
    """A table is written under a key that its stream isn't partitioned by; says what to do."""


class OutsideStreamError(MuntinError, RuntimeError):
    """Something needs the event that an agent is at, and there is none."""


class MissingExtraError(MuntinError, ImportError):
    """An optional part of muntin isn't installed; the message says what to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'muntin[{extra}]'")

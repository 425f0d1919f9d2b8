"""Whether messages are taken: not while outputs wait for something downstream that refused them.

Source: the Samza SQL window operator design (``addMessage`` step 1 and 7, ``timeout`` step 1).
"""

from __future__ import annotations

import logging

from muntin.model.errors import SelectorDisabledError

_log = logging.getLogger("muntin.standalone")


class Selector:
    """The message selector of one operator.

    Attributes:
        enabled: Whether messages are taken.

    Example:
        >>> selector = Selector("windows")
        >>> selector.enabled = False
        >>> try:
        ...     selector.check()
        ... except SelectorDisabledError as error:
        ...     print("timeout()" in str(error))
        True
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.enabled = True

    def check(self) -> None:
        """Let a message pass, or not."""
        if self.enabled:
            return
        refusal = f"{self.name} takes no messages while its outputs wait for what is downstream"
        _log.warning(refusal)
        hint = "call timeout() until it returns True, then hand the message over again"
        raise SelectorDisabledError(f"{refusal}; {hint}")

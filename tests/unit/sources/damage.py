"""Payloads of text that are damaged at random."""

from __future__ import annotations

from random import Random

# What means something in JSON or CSV, text of several bytes, and bytes that aren't text.
_BYTES = b'{}[]",:\\\n\r\t 0123456789.eE+-truefalsn\x00\xff\xc3\xa9ud8'


def damage(value: bytes, dice: Random) -> bytes:
    """The payload with up to three bytes removed, added or changed, or a part of it doubled."""
    damaged = bytearray(value)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(damaged) + 1)
        match dice.randrange(4):
            case 0:
                del damaged[place : place + 1]
            case 1:
                damaged.insert(place, dice.choice(_BYTES))
            case 2:
                damaged[place : place + 1] = bytes([dice.choice(_BYTES)])
            case _:
                damaged = damaged[:place] + damaged[place // 2 :]
    return bytes(damaged[:400])

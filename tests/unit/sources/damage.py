"""Damages text payloads at random."""

from __future__ import annotations

from random import Random

# Syntax of JSON and CSV, characters of several bytes, and bytes that aren't text.
_BYTES = b'{}[]",:\\\n\r\t 0123456789.eE+-truefalsn\x00\xff\xc3\xa9ud8'


def damage(value: bytes, dice: Random) -> bytes:
    """Remove, add or change up to three bytes of a payload, or repeat a part of it."""
    damaged = bytearray(value)
    for _ in range(dice.randint(1, 3)):
        position = dice.randrange(len(damaged) + 1)
        match dice.randrange(4):
            case 0:
                del damaged[position : position + 1]
            case 1:
                damaged.insert(position, dice.choice(_BYTES))
            case 2:
                damaged[position : position + 1] = bytes([dice.choice(_BYTES)])
            case _:
                damaged = damaged[:position] + damaged[position // 2 :]
    return bytes(damaged[:400])

"""Prints who may connect to a local session: the modes of its sockets' folders, its addresses."""

from __future__ import annotations

import ipaddress
import os
import sys
from contextlib import suppress
from pathlib import Path

import muntin as mt


def descendants(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread or a process that ended meanwhile
            for child in (task / "children").read_text().split():
                found += descendants(int(child))
    return found


def sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found


def listening(mine: set[str]) -> set[str]:
    """The addresses at which some of the sockets take connections."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in mine:
                # The kernel prints words of four bytes in the machine's order.
                text = bytes.fromhex(local.partition(":")[0])
                words = [text[at : at + 4] for at in range(0, len(text), 4)]
                if sys.byteorder == "little":
                    words = [word[::-1] for word in words]
                address = ipaddress.ip_address(b"".join(words))
                found.add(str(getattr(address, "ipv4_mapped", None) or address))
    return found


def folder_modes(mine: set[str]) -> set[str]:
    """The modes of the folders in which Unix sockets have a name."""
    found = set()
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[6] in mine and fields[7].startswith("/"):
            folder = Path(fields[7]).parent
            if folder.exists():
                found.add(oct(folder.stat().st_mode & 0o777))
    return found


if __name__ == "__main__":
    spark = mt.session(master="local[2]", spark__ui__enabled="true", spark__ui__port="0")
    spark.sparkContext.parallelize(range(4), 2).map(lambda x: x + 1).collect()
    owned: set[str] = set()
    for process in descendants(os.getpid()):
        with suppress(OSError):
            owned |= sockets(process)
    print(*folder_modes(owned))
    print(*listening(owned))
    spark.stop()

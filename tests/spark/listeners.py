"""Prints who may connect to a local session: the modes of its sockets' folders, its addresses."""

from __future__ import annotations

import ipaddress
import os
import sys
from contextlib import suppress
from pathlib import Path

import muntin as mt


def descendants(pid: int) -> list[int]:
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread or a process that ended meanwhile
            for child in (task / "children").read_text().split():
                pids += descendants(int(child))
    return pids


def sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    return inodes


def listening_addresses(inodes: set[str]) -> set[str]:
    """Return the addresses at which some of the sockets accept connections."""
    addresses = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                # The kernel prints words of four bytes in the machine's order.
                text = bytes.fromhex(local.partition(":")[0])
                words = [text[at : at + 4] for at in range(0, len(text), 4)]
                if sys.byteorder == "little":
                    words = [word[::-1] for word in words]
                address = ipaddress.ip_address(b"".join(words))
                addresses.add(str(getattr(address, "ipv4_mapped", None) or address))
    return addresses


def folder_modes(inodes: set[str]) -> set[str]:
    """Return the modes of the folders of named Unix sockets."""
    modes = set()
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[6] in inodes and fields[7].startswith("/"):
            folder = Path(fields[7]).parent
            if folder.exists():
                modes.add(oct(folder.stat().st_mode & 0o777))
    return modes


if __name__ == "__main__":
    spark = mt.session(master="local[2]", spark__ui__enabled="true", spark__ui__port="0")
    spark.sparkContext.parallelize(range(4), 2).map(lambda x: x + 1).collect()
    owned: set[str] = set()
    for process in descendants(os.getpid()):
        with suppress(OSError):
            owned |= sockets(process)
    print(*folder_modes(owned))
    print(*listening_addresses(owned))
    spark.stop()

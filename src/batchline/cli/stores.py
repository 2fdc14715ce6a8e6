"""The store that a command works on."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Final

from batchline.cli import screen
from batchline.errors import InvalidStore, StoreUnavailable
from batchline.runtime.clock import elapsed_seconds
from batchline.stores import Store, open_store
from batchline.stores.address import EXAMPLES, Address, read_address

__all__ = ["lasting_address", "open_existing", "open_or_make", "open_patiently"]

#: How long between two looks for a store that is away.
PAUSE_S: Final = 0.5


def lasting_address(url: str) -> Address:
    """The address of a store that outlives the command; `memory://` does not."""
    address = read_address(url)
    if address.scheme == "memory":
        lasting = EXAMPLES.removeprefix("memory://, ")
        raise InvalidStore(f"memory:// would be gone with this command; expected a store such as {lasting}")
    return address


def open_or_make(url: str) -> Store:
    """The store, made or brought up to date if need be."""
    lasting_address(url)
    return open_store(url)


def open_existing(url: str) -> Store:
    """The store as it is: a command that begins nothing makes no file and changes no schema."""
    address = lasting_address(url)
    if address.scheme == "sqlite" and address.path and not Path(address.path).exists():
        makers = "batchline fanout open, batchline topic create, batchline token create or batchline migrate"
        raise InvalidStore(f"{address.shown} is not there; {makers} makes it")
    return open_store(url, migrate=False)


def open_patiently(url: str, wait: timedelta) -> Store:
    """The store, made or brought up to date if need be; should it be away, it is waited for so long."""
    end_s, waits, never = elapsed_seconds() + wait.total_seconds(), False, threading.Event()
    while True:
        try:
            store = open_store(url)
        except StoreUnavailable as error:
            left_s = end_s - elapsed_seconds()
            if left_s <= 0:
                raise
            if not waits:
                _say(f"the store does not answer, it is waited for up to {left_s:.0f} s: {error}")
            waits = True
            never.wait(min(PAUSE_S, left_s))
        else:
            if waits:
                _say("the store is there")
            return store


def _say(text: str) -> None:
    screen.err.print(screen.plain(screen.one_line(text)), style="dim", highlight=False, soft_wrap=True)

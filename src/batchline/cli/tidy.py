"""`batchline tidy`: removes what is finished, gives up what nobody was heard of, rescues what would be stuck."""

import asyncio
import signal
from datetime import timedelta
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.options import DEFAULT_STORE, Json, Store, read_span
from batchline.cli.stores import open_existing
from batchline.runtime.services import Services

Every = Annotated[
    timedelta | None,
    typer.Option("--every", help="Keep on, with so long a rest between steps.", metavar="SPAN", parser=read_span),
]


def tidy(
    store: Store = DEFAULT_STORE,
    every: Every = None,
    json: Json = False,
) -> None:
    """Do a store's background work: once, until nothing is left to do, or for as long as it runs.

    Removes what was done or cancelled longer ago than its topic's --keep, and topics that are deleted; takes messages
    that were leased too often to their dead-letter topics; expires fanouts. Any number of processes may do so at once.

    [bold]Examples[/]

      batchline tidy
      batchline tidy --every 1s --store postgresql://batchline@db.example/batchline
      batchline tidy --json
    """
    with open_existing(store) as found:
        services = Services(found, every=every or timedelta(seconds=1))
        if every is not None:
            asyncio.run(_keep_on(services))
            return
        steps = 1
        while services.run_once():
            steps += 1
    if json:
        screen.say_json({"store": found.url, "steps": steps})
    else:
        screen.out.print(f"[green]✓[/] {screen.plain(found.url)} is tidy", highlight=False, soft_wrap=True)


async def _keep_on(services: Services) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, services.stop)
    await services.run()

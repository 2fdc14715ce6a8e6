"""`batchline migrate`: a store's schema, brought up to date."""

from batchline.cli import screen
from batchline.cli.options import DEFAULT_STORE, Json, Store
from batchline.cli.stores import lasting_address
from batchline.stores.opening import find_store


def migrate(store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Bring a store's schema up to date. Any number of processes may do so at once.

    [bold]Examples[/]

      batchline migrate
      batchline migrate --store sqlite:////var/lib/batchline.db
      batchline migrate --store postgresql://batchline@db.example/batchline
      BATCHLINE_STORE=mysql://me:secret@host/name batchline migrate --json
    """
    with find_store(lasting_address(store)) as found:
        ran = found.migrate()
        version = found.version()
    if json:
        screen.say_json({"store": found.url, "version": version, "migrated": ran})
        return
    for name in ran:
        screen.out.print(f"[green]✓[/] {screen.plain(name)}", highlight=False)
    done = f"is now at version {version}" if ran else f"is up to date, at version {version}"
    screen.out.print(f"{screen.plain(found.url)} {done}", highlight=False, soft_wrap=True)

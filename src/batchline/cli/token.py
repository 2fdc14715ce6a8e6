"""`batchline token`: who may do what at the service."""

from datetime import timedelta
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.options import DEFAULT_STORE, Json, Store, read_span
from batchline.cli.stores import open_existing, open_or_make
from batchline.cli.token_screen import rights_text, token_data, token_row, token_table
from batchline.core.moment import moment_of
from batchline.core.token import Token
from batchline.runtime.clock import now_us
from batchline.runtime.tokens import Tokens

__all__ = ["app"]

app = typer.Typer(
    name="token",
    help="Tokens: who may do what at the service. As soon as there is one, everybody needs one.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="What people call it.", metavar="TEXT")] = "",
    producer_group: Annotated[
        str | None,
        typer.Option("--producer-group", help="May create messages and fanouts, which this group owns.", metavar="G"),
    ] = None,
    consumer: Annotated[
        list[str] | None,
        typer.Option("--consumer", help="May lease under names like this; any number.", metavar="PATTERN"),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="On topics like this; any number. Required with --producer-group or --consumer.",
            metavar="PATTERN",
            show_default=False,
        ),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="May do everything, on every topic.")] = False,
    expires: Annotated[
        timedelta | None,
        typer.Option("--expires", help="Ends after so long.", parser=read_span, metavar="SPAN", show_default="never"),
    ] = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Create a token, and print it. It is shown this once, and kept nowhere.

    Without --producer-group, --consumer and --admin it may only read, on every topic unless --topic says otherwise.
    Patterns have *, ? and [abc]; put them in quotes. No pattern matches an internal topic, such as a pipeline's
    parcels: name it in full to change what is on it. The store is made if it is not there.

    [bold]Examples[/]

      batchline token create --name "order desk" --producer-group orders --topic 'orders*'
      batchline token create --consumer 'worker-*' --topic parcels --expires 90d
      batchline token create --name dashboards
      BATCHLINE_TOKEN=$(batchline token create --admin --expires 1h)
    """
    with open_or_make(store) as opened:
        made, text = Tokens(opened).create(
            name,
            producer_group=producer_group,
            consumers=consumer or [],
            topics=topic or None,
            admin=admin,
            expires=expires,
        )
    if json:
        screen.say_json_lines([_data(made) | {"token": text}])
        return
    screen.say_lines([text])
    said = f"token {made.id} may {rights_text(made)}; it is shown this once, so keep it now"
    screen.err.print(f"[dim]{screen.plain(said)}[/]", highlight=False, soft_wrap=True)


@app.command("list")
def list_(store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """List tokens, those that have ended, too; the oldest first.

    In a pipe a line has id, state (valid, expired, revoked), producer group,
    patterns of consumers and of topics, admin, and name, with tabs between; - for none.

    [bold]Examples[/]

      batchline token list
      batchline token list --json | jq -r 'select(.admin and .state == "valid") | .id'
    """
    with open_existing(store) as opened:
        found = Tokens(opened).list()
    now = moment_of(now_us())
    if json:
        screen.say_json_lines(map(_data, found))
    elif not screen.out.is_terminal:
        screen.say_lines(token_row(one, now) for one in found)
    elif found:
        screen.out.print(token_table(found, now), highlight=False)
    screen.say_rest(bool(found), "there is no token", None, json)
    wide = [one.id for one in found if one.is_valid(now) and one.is_wide]
    if wide and not json:
        said = f"every topic but internal ones is open to {', '.join(wide)}: replace them by tokens that name theirs"
        screen.err.print(f"[dim]{screen.plain(said)}[/]", highlight=False, soft_wrap=True)


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id, not the token itself.", show_default=False)],
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """End a token; within five seconds no service takes it any more. Again changes nothing.

    [bold]Examples[/]

      batchline token revoke 3f9c01d2a7be
      batchline token list | awk '$2 == "expired" {print $1}' | xargs -n 1 batchline token revoke
    """
    with open_existing(store) as opened:
        ended = Tokens(opened).revoke(id)
    if json:
        screen.say_json_lines([_data(ended)])
    else:
        screen.say(f"token [bold]{screen.plain(ended.id)}[/] is revoked")


def _data(token: Token) -> dict[str, object]:
    return token_data(token, moment_of(now_us()))

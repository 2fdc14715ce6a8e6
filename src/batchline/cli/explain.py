"""`batchline explain`: one key's windows as a picture."""

import difflib
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from batchline.cli import options, screen
from batchline.cli.options import Anchor, Columns, Input, Json, LeapLimit, MaxBytes, MaxDelay, Order, Split, Window
from batchline.core.batch_rules import BatchRules
from batchline.core.moment import moment_of, us_of
from batchline.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

    from batchline.pictures.windows import WindowsPicture

DEFAULT = BatchRules()


def explain(
    path: Input,
    key: Annotated[str, typer.Option("--key", help="The key to draw.")],
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw into this SVG file too.", metavar="FILE")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many batches to draw.", min=1)] = 12,
    since: Annotated[str, typer.Option("--from", help="Draw from this moment on.", metavar="TIME")] = "",
    window: Window = DEFAULT.window,
    max_delay: MaxDelay = DEFAULT.max_delay,
    leap_limit: LeapLimit = DEFAULT.leap_limit,
    max_bytes: MaxBytes = DEFAULT.max_bytes,
    anchor: Anchor = DEFAULT.anchor,
    split: Split = DEFAULT.split,
    columns: Columns = "",
    order: Order = "",
    json: Json = False,
) -> None:
    """Draw one key's windows, members and rejected messages.

    [bold]Examples[/]

      batchline explain fleet/measurements.parquet --key pump-0005
      batchline explain fleet --key pump-0005 --from 2026-11-15T00:02:00Z
      batchline explain fleet --key pump-0005 --limit 20 --svg windows.svg
      batchline explain fleet --key pump-0005 --anchor event --split midpoint
      batchline explain fleet --key pump-0005 --json | jq '.bars[] | {id, members}'
    """
    from batchline.local import batch_reading, read_files
    from batchline.pictures.svg import svg as draw_svg
    from batchline.pictures.terminal import draw
    from batchline.pictures.windows import picture_of
    from batchline.sinks.files import write_text

    rules = BatchRules(
        window=window, max_delay=max_delay, leap_limit=leap_limit, max_bytes=max_bytes, anchor=anchor, split=split
    )
    names, order_by = options.names_of(columns), options.list_of(order)
    from_us = moment_us(since) if since else None
    with screen.steps() as watch:
        reading = read_files(path, names, watch)
        # Keys never influence each other: the others need not be batched to draw this one.
        reading = replace(reading, table=rows_of(reading.table, key))
        rows = batch_reading(reading, rules, order_by, watch).assigned
    if from_us is not None:
        rows = rows_since(rows, from_us)
    picture = picture_of(rows, key, limit=limit)
    if json:
        screen.say_json(picture_data(picture))
    else:
        screen.out.print(draw(picture, screen.out.width))
    if svg is not None:
        write_text(draw_svg(picture), svg)
        screen.err.print(f"[dim]drawn into {screen.plain(str(svg))}[/]")


def picture_data(picture: "WindowsPicture") -> dict[str, Any]:
    """The picture for a program: moments as such, what was rejected by its reason."""
    data: dict[str, Any] = _with_moments(asdict(picture))
    data["counts"]["rejected"] = dict(data["counts"]["rejected"])
    return data


def _with_moments(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name.removesuffix("_us"): moment_of(one) if name.endswith("_us") else _with_moments(one)
            for name, one in value.items()
        }
    return [_with_moments(one) for one in value] if isinstance(value, list | tuple) else value


def rows_of(table: "pa.Table", key: str) -> "pa.Table":
    """The rows of a key; one that is not there is named, with those that look like it."""
    import pyarrow.compute as pc

    rows = table.filter(pc.equal(table.column("key"), key))
    if rows.num_rows:
        return rows
    keys = pc.unique(table.column("key")).to_pylist()
    near = difflib.get_close_matches(key, keys, n=3) or sorted(keys)[:3]
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise InvalidInput(f"no measurement of key {key!r} among {len(keys):,} keys{hint}")


def rows_since(rows: "pa.Table", from_us: int) -> "pa.Table":
    """The rows of the batches that end after a moment, and what was rejected from then on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from batchline.columnar.columns import MOMENT

    moment = pa.scalar(from_us, MOMENT)
    until = pc.coalesce(rows.column("batch_end"), rows.column("receive_time"))
    return rows.filter(pc.greater(until, moment))


def moment_us(text: str) -> int:
    """A moment given on the command line."""
    try:
        return us_of(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidInput(f"--from expects a moment such as 2026-11-15T12:00:00Z, got {text!r}") from error

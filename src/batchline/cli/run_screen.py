"""How a pipeline's run looks: a line while it goes on, and what became of everything at its end."""

from rich.table import Table

from batchline.cli import screen
from batchline.core.pipeline import Pipeline
from batchline.flow import Summary

__all__ = ["line_of", "show"]


def line_of(summary: Summary) -> str:
    """How it goes, in a line."""
    rejected = sum(summary.rejected.values())
    return (
        f"{summary.read:,} read · {summary.batched:,} batched · {rejected:,} rejected · {summary.parcels:,} parcels · "
        f"{summary.acked:,} arrived · {summary.failed:,} refused"
    )


def show(summary: Summary, pipeline: Pipeline) -> None:
    """The summary for a person, stage by stage."""
    screen.out.print(screen.counts(f"{summary.read:,} read", {"batched": summary.batched} | summary.rejected), "")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("batches", f"[bold]{summary.batches:>12,}[/]")
    table.add_row("parcels", f"[bold]{summary.parcels:>12,}[/]", f"{summary.published:,} measurements")
    table.add_row("delivered", f"[bold]{summary.delivered:>12,}[/]", f"{summary.arrived:,} measurements, by this run")
    table.add_row("acked", f"[bold]{summary.acked:>12,}[/]", "by whichever worker")
    if summary.failed:
        table.add_row("refused", f"[bold red]{summary.failed:>12,}[/]", f"in {pipeline.publish.topic}-dead")
    screen.out.print(table)
    if summary.complete:
        screen.say(f"[green]✓[/] complete: all that was published has arrived ({summary.fanouts:,} fanouts)")
    for reason in summary.why_not:
        screen.say(f"[yellow]not complete:[/] {screen.plain(reason)}")
    screen.out.print(f"[dim]what was rejected is in {screen.plain(pipeline.out)}/[/]")

"""A simulation as a person sees it: on a terminal and as a page; and as a program does."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from batchline.core.cost import exceeds
from batchline.core.moment import span_text
from batchline.core.scenario import Scenario
from batchline.pictures.series import Chart, Curve, number_text
from batchline.pictures.series_terminal import draw_charts
from batchline.runtime.simulation_record import JobOutcome, Simulation, Summary

__all__ = ["simulation_data", "simulation_lines", "simulation_page"]

#: Jobs that are shown one by one.
SHOWN = 20
JOB_COLUMNS = ("job", "on", "records", "came", "first sent", "done", "p50", "p99")


def charts_of(simulation: Simulation) -> list[Chart]:
    """Rate, backlog and share of each instance; of several capacities, each has its own."""
    limits = simulation.summary.limit
    return [chart for name in limits for chart in _charts_of(simulation, name, several=len(limits) > 1)]


def _charts_of(simulation: Simulation, name: str, *, several: bool) -> Iterator[Chart]:
    of, unit = (f" of {name}", name) if several else ("", "cost")
    limit = simulation.summary.limit[name]
    names = [f"instance {series.number}" for series in simulation.instances]

    def curves(measure: str) -> list[Curve]:
        values = (getattr(series, measure)[name] for series in simulation.instances)
        return [Curve(one, value, place) for place, (one, value) in enumerate(zip(names, values, strict=True))]

    refused = [sum(values) for values in zip(*(series.throttled[name] for series in simulation.instances), strict=True)]
    throttled = [Curve("throttled", refused, None)] if any(refused) else []
    yield Chart(f"Rate{of}", f"{unit} a second", [*curves("rate"), *throttled], limit=limit, summed=True)
    yield Chart(f"Backlog{of}", f"{unit} of what has come and is not done", curves("backlog"), stacked=False)
    if simulation.scenario.capacity.limit is not None:
        yield Chart(f"Share{of}", f"{unit} a second that an instance may send", curves("capacity"), limit=limit)


def simulation_lines(name: str, simulation: Simulation, width: int) -> Iterator[RenderableType]:
    """What a terminal shows."""
    yield Text.assemble((name, "bold"), "  ", scenario_text(simulation.scenario))
    yield ""
    yield draw_charts(charts_of(simulation), width)
    yield ""
    yield _jobs(simulation)
    yield ""
    figures = Table.grid(padding=(0, 2, 0, 0))
    for figure, value in figures_of(simulation):
        figures.add_row(Text(figure, "dim"), value)
    yield figures
    yield ""
    yield from (Text.assemble((f"{sign} ", style), said) for sign, style, said in verdicts(simulation))


def _jobs(simulation: Simulation) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for place, column in enumerate(JOB_COLUMNS):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for job in simulation.jobs[:SHOWN]:
        table.add_row(*map(Text, job_row(job)))
    if len(simulation.jobs) > SHOWN:
        table.add_row(Text(f"… {len(simulation.jobs) - SHOWN:,} more", "dim"))
    return table


def scenario_text(scenario: Scenario) -> str:
    """What was simulated, in one line."""
    plan = scenario.capacity
    count = f"{scenario.instances} instance{'s' if scenario.instances > 1 else ''}"
    if plan.shared is not None:
        rules = plan.shared
        how = f"share {_amount(rules.shared)} by {_amount(rules.factor)}, {_amount(rules.reserved)} reserved"
        return f"{count} {how}, turns of {span_text(rules.max_interval)}"
    if plan.provisioned is not None:
        return f"{count}, {_amount(plan.provisioned)} for each"
    return f"{count} without a limit"


def job_row(job: JobOutcome) -> tuple[str, ...]:
    """A job on an instance, as texts."""
    ended = seconds_text(job.ended_s) if job.ended_s is not None else _not_done(job)
    began = "never" if job.began_s is None else seconds_text(job.began_s)
    waits = ("–", "–") if job.began_s is None else (seconds_text(job.waited_p50_s), seconds_text(job.waited_p99_s))
    return (job.name, str(job.instance), f"{job.records:,}", seconds_text(job.at_s), began, ended, *waits)


def _not_done(job: JobOutcome) -> str:
    return f"{job.lost:,} lost" if job.lost else f"{job.records - job.done:,} left"


def figures_of(simulation: Simulation) -> Iterator[tuple[str, str]]:
    """The summary, as texts."""
    summary = simulation.summary
    yield "took", f"{seconds_text(summary.seconds)} of virtual time"
    for name, limit in summary.limit.items():
        of = f" of {name}" if len(summary.limit) > 1 else ""
        most = summary.largest_second[name]
        yield f"largest second{of}", f"{number_text(most)}, {most / limit:.1%} of the limit {number_text(limit)}"
    if summary.used is not None:
        yield "used while work waited", f"{summary.used:.1%} of the limit"
    if summary.fairness is not None:
        yield "fairness", f"{summary.fairness:.1%}; 100.0% is that all who had work got as much"
    p50, p99, longest = map(seconds_text, (summary.waited_p50_s, summary.waited_p99_s, summary.waited_longest_s))
    yield "records waited", f"p50 {p50}, p99 {p99}, longest {longest}"
    if summary.refusals or summary.pauses:
        yield "throttled", f"{summary.refusals:,} batches; {summary.pauses:,} pauses, {seconds_text(summary.paused_s)}"
    if summary.lease_calls:
        verbs = ((verb, summary.lease_calls.get(verb, 0)) for verb in ("ask", "renew", "acquire", "release"))
        calls = ", ".join(f"{verb} {count:,}" for verb, count in verbs)
        yield "lease calls a second", f"{summary.lease_calls_a_second:.1f}; {calls}"


def verdicts(simulation: Simulation) -> Iterator[tuple[str, str, str]]:
    """Whether it is good: a sign, its colour, and a sentence."""
    summary = simulation.summary
    if summary.done:
        yield (
            "✓",
            "green",
            f"{summary.records - summary.lost:,} records were done after {seconds_text(summary.seconds)}",
        )
    else:
        longest = span_text(simulation.scenario.longest)
        yield "✗", "red", f"{summary.left:,} of {summary.records:,} records were not done within {longest}"
    if summary.lost:
        yield "!", "yellow", f"{summary.lost:,} records were lost with instances that were stopped or killed"
    if not summary.exceeded:
        yield "✓", "green", "never more than the limit came within a second"
        return
    yield "✗", "red", f"more than the limit came within a second: {_advice(simulation.scenario)}"


def _advice(scenario: Scenario) -> str:
    plan, limit = scenario.capacity, scenario.receiver.limit
    if plan.limit is None:
        return "give the instances a capacity"
    alone = plan.provisioned if plan.shared is None else plan.shared.reserved
    shared = limit * 0 if plan.shared is None else plan.shared.shared
    if exceeds(alone * scenario.instances + shared, limit):
        return "all instances together may send more than it takes"
    return "a burst after a rest has one flush interval more; shorten flush_interval, or leave a part of the limit free"


def simulation_data(simulation: Simulation) -> dict[str, Any]:
    """What a program gets."""
    return {
        "summary": asdict(simulation.summary),
        "jobs": [asdict(job) for job in simulation.jobs],
        "at_s": simulation.at_s,
        "lease_calls": simulation.lease_calls,
        "instances": [asdict(series) for series in simulation.instances],
    }


def simulation_page(name: str, simulation: Simulation) -> str:
    """What a browser shows."""
    from batchline.pictures.page import Section, page
    from batchline.pictures.series_svg import chart_svg

    said = ". ".join(sentence[0].upper() + sentence[1:] for _, _, sentence in verdicts(simulation))
    summary = Section(
        _heading(simulation.summary),
        f"{scenario_text(simulation.scenario)}. {said}.",
        rows=list(figures_of(simulation)),
    )
    charts = [Section(chart.title, _text(chart), pictures=[chart_svg(chart)]) for chart in charts_of(simulation)]
    said = (
        "Each on its instance: when it came, was first sent and was done; how long half and 99 % of its records waited."
    )
    jobs = Section("Jobs", said, columns=JOB_COLUMNS, rows=[job_row(job) for job in simulation.jobs])
    return page(f"Batchline · {name}", [summary, *charts, jobs])


def _heading(summary: Summary) -> str:
    said = "All was done" if summary.done else "It was not done in time"
    return f"{said}, and more than the limit came within a second" if summary.exceeded else said


def _text(chart: Chart) -> str:
    refused = any(curve.colour is None for curve in chart.curves)
    above = ", and in red what it refused" if refused else ""
    return {
        "Rate": f"What the receiver took of each instance within each second, one on top of the other{above}.",
        "Backlog": "What has come to each instance and is not done, at the end of each second.",
        "Share": "What each instance may send a second, one on top of the other: what it holds, and what is reserved.",
    }[chart.title.split()[0]]


def seconds_text(seconds: float) -> str:
    """A number of seconds, as precise as one reads it: 20 ms, 1.25 s, 100.7 s, 1,200 s."""
    if seconds and seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.2f} s" if 0 < seconds < 10 else f"{seconds:,.1f} s".replace(".0 s", " s")


def _amount(amount: Any) -> str:
    if isinstance(amount, dict):
        return ", ".join(f"{number_text(part)} {name}" for name, part in amount.items())
    return number_text(amount)

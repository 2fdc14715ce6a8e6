"""How long operations wait for a shared capacity, in virtual time: `python -m tests.benchmarks.dispatcher_demand`."""

from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

from batchline.runtime.virtual_time import run_virtually
from tests.runtime.demand import at_25_percent, at_80_percent, debt_s, own_waits, shared_waits
from tests.runtime.dispatching import ms

MEASURED: dict[str, Callable[[], Any]] = {
    "estimates ten times too low, 80 % load, shared": lambda: shared_waits(at_80_percent()),
    "the same, callbacks take 300 ms": lambda: shared_waits(at_80_percent(ms(300))),
    "estimates ten times too low, 80 % load, provisioned": lambda: own_waits(at_80_percent()),
    "steady 25 % load, shared": lambda: shared_waits(at_25_percent()),
    "steady 25 % load, 25 operations at once, shared": lambda: shared_waits(at_25_percent(25)),
    "25 % load, 25 operations at random moments, shared": lambda: shared_waits(at_25_percent(25, chance=True)),
    "steady 25 % load, provisioned": lambda: own_waits(at_25_percent()),
}

if __name__ == "__main__":
    for name, measure in MEASURED.items():
        waits = run_virtually(measure(), inline=True)
        print(
            f"{name}: median {median(waits):.3f} s, p99 {quantiles(waits, n=100)[98]:.3f} s, {len(waits):,} operations"
        )
    print(f"debt of 50,000 with 10,000/s free: {run_virtually(debt_s(50_000), inline=True):.1f} s")

"""`make bench`: every benchmark in one run. `make bench ROWS=100000` for a quick look."""

import os

from tests.benchmarks import (
    batcher,
    dispatcher,
    estimates,
    lanes,
    packer,
    push,
    service,
    spark_batch,
    spark_streaming,
    timeline,
    tracker,
    worker,
)

if __name__ == "__main__":
    rows = int(os.environ.get("ROWS", "1000000"))
    batcher.run(rows).show()
    packer.run(rows).show()
    lanes.run(max(100, rows // 100)).show()
    tracker.run([size * rows // 1_000_000 for size in tracker.SIZES]).show()
    timeline.run([size * rows // 1_000_000 for size in timeline.SIZES]).show()
    # Rates are measured in seconds of the clock: a tenth of them still tells something.
    dispatcher.run(min(1.0, max(0.1, rows / 1_000_000))).show()
    estimates.run(max(1_000, rows // 100)).show()
    service.run(min(service.SECONDS, max(2.0, rows * service.SECONDS / 1_000_000))).show()
    push.run().show()
    worker.run(max(worker.AT_ONCE, rows * worker.PARCELS // 1_000_000)).show()
    # Spark's figures mean something only where its jobs run for longer than they take to start.
    rows = int(os.environ.get("ROWS", spark_batch.ROWS))
    spark_batch.run(rows, int(os.environ.get("PAYLOAD", "0"))).show()
    spark_streaming.run(rows * spark_streaming.ROWS // spark_batch.ROWS).show()

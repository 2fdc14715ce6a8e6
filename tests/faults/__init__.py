"""The whole path on real servers, while somebody kills, stops, fills and skews what it is made of.

    devices ─► Mosquitto ─► ingest ─► landing ─► driver (Spark) ─► PostgreSQL ─► workers ─► receiver
                                                                        Redis ─┘ shared capacity

`plan` says what goes wrong and when, by a seed; `parts` are the processes, `injury` does it to them and mends it;
`scene` is one run; `evidence` is what is there afterwards, and `invariants` what must be true of it.

    python -m tests.faults --faults 200           until so many faults were injected
    python -m tests.faults --seed 7               one run again
"""

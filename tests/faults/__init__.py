"""The whole path on real servers, while its parts are killed, frozen, cut off, filled, skewed and deceived.

    devices ─► Mosquitto ─► ingest ─► landing ─► driver (Spark) ─► PostgreSQL ─► workers ─► receiver
                                                                        Redis ─┘ shared capacity

`plan` says what goes wrong and when, by a seed; `cast` are the processes, and the links of the `network` between each
of them and the servers; `injury` does it to them and mends it. `scene` is one run; `evidence` is what is there
afterwards, and `invariants` what must be true of it. `pulse` watches the lanes, and `recovery` says which fault each
time without progress is blamed on, and how long it may be.

    python -m tests.faults --faults 200           until so many faults were injected
    python -m tests.faults --seed 7               one run again
    python -m tests.faults --only freeze,cut      kinds of faults
"""

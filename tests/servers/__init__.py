"""Real servers for tests: started when first asked for, once per run, and gone when the run is, however it ends.

    test ──ask──▶ keeper ──starts──▶ PostgreSQL, MariaDB, Redis, Mosquitto, Azurite, Kafka, a Spark cluster
                    │ └──starts──▶ sweeper
                    └ watches the controller, the process the run stands and falls with

`server` says what a server is, `kinds` are the seven of them, `launch` starts one, `keeper` is the process that
owns them, `ask` is how a test reaches it. What ends a run, and what follows:

* the controller asks the keeper to stop, or dies: the keeper stops its servers and exits;
* the keeper dies: the kernel signals its servers (`launch.die_with_keeper`);
* either way the sweeper, which waits until the keeper and its last server are gone, removes their directory.
"""

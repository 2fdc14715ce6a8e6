"""The rules of every stage: no I/O, no threads, no clock; `now` is an argument."""

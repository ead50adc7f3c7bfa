"""The engine in a worker process: a fault of native code ends the worker, and not the program."""

"""Benchmarks: each module is one `python3 ci/bench.py NAME`, and each pairs us with a peer."""

"""What the README's commands run: set-up, checks, demo and benchmarks. Not part of the wheel."""

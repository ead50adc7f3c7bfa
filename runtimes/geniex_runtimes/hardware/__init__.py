"""Probes: what this machine has, and why not."""

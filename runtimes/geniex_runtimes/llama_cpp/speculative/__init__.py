"""Speculative decoding: drafters that propose, and the choice of how much to propose."""

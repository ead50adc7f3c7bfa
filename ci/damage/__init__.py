"""Damaged model files, made from good ones, and how geniex takes them: `python -m ci.damage`."""

"""What reads others' bytes, fed with what nobody would write: `python -m ci.fuzz`."""

"""What `ci/snapdragon_check.py` shows on a machine, step by step."""

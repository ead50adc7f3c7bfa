"""geniex: type a model's name, and it runs on the machine in front of you."""

__version__ = "0.1.0"

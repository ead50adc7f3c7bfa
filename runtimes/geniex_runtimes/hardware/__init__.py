"""What this machine is: small probes, each answering what it found and why not."""

from geniex_runtimes.hardware.profile import probe

__all__ = ["probe"]

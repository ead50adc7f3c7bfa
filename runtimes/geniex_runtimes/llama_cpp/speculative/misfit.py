"""Drafts that are hardly ever right: worth a word, since they only look slow from outside."""

from geniex_runtimes.kv_cache import is_quantised
from geniex_runtimes.options import KvType

DRAFTS = 200
LEAST_ACCEPTED = 0.05


class Misfit:
    """Counts a draft model's drafts since it was loaded."""

    def __init__(self, kv_type: KvType) -> None:
        """`kv_type` is what the target's cache is kept in, which a draft may read from."""
        self._kv_type: KvType = kv_type
        self._drafts = self._proposed = self._accepted = 0

    def count(self, proposed: int, accepted: int) -> None:
        """A draft was verified."""
        self._drafts += 1
        self._proposed += proposed
        self._accepted += accepted

    @property
    def note(self) -> str:
        """What there is to say; nothing before DRAFTS drafts, or where they are right at times."""
        if self._drafts < DRAFTS or self._accepted >= LEAST_ACCEPTED * self._proposed:
            return ""
        share = self._accepted / self._proposed
        why = f"the draft does not fit the target (KV cache in {self._kv_type})"
        if is_quantised(self._kv_type):
            why = f"the KV cache in {self._kv_type} may be why, or the draft does not fit: try f16"
        return f"of {self._drafts} drafts {share:.1%} of the tokens were accepted: {why}"

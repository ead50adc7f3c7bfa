"""What is said of a pair of files: the way to run it, or the reason against."""

from pathlib import Path

import pytest

from geniex_catalogue.gguf import read_header
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp.speculative.pair import Mode, check


def mode(target: Path, draft: Path | None = None) -> Mode:
    """The way to run them."""
    header = read_header(draft) if draft is not None else None
    return check(read_header(target), target, header, draft)


def refusal(target: Path, draft: Path | None = None) -> str:
    """The reason, which is one line."""
    with pytest.raises(SpeculativeError) as caught:
        mode(target, draft)
    assert "\n" not in caught.value.message
    return caught.value.message

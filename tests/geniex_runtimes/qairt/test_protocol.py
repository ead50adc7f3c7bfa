"""Every message of the runtime arrives as it was sent."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_runtimes.contract import Profile, TokenLogprob
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt import protocol
from geniex_runtimes.qairt.protocol import (
    Cancel,
    Close,
    Did,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    Message,
    Piece,
    Reset,
    Restore,
    Save,
)
from geniex_runtimes.workers.wire import ProtocolError

_NUMBERS = st.integers(0, 1 << 40)
_LOGPROBS = st.builds(
    TokenLogprob, _NUMBERS, st.binary(max_size=6), st.floats(max_value=0, allow_nan=False)
)
_SAMPLING = st.builds(
    SamplingOptions,
    temperature=st.none() | st.floats(0, 2),
    top_k=st.none() | st.integers(0, 500),
    seed=st.none() | st.integers(),
    grammar=st.none() | st.text(max_size=20),
    logit_bias=st.lists(st.tuples(_NUMBERS, st.floats(-100, 100)), max_size=3).map(tuple),
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Load, st.just(Path("/a/b")), st.sampled_from(["genie", "ort"]), st.booleans()),
    st.builds(
        Generate,
        _NUMBERS,
        st.lists(_NUMBERS, max_size=9).map(tuple),
        _SAMPLING,
        st.none() | _NUMBERS,
        st.lists(st.text(), max_size=3).map(tuple),
        st.none() | _NUMBERS,
    ),
    st.builds(Cancel, _NUMBERS),
    st.sampled_from([Reset(), Close(), Did(), Save(Path("x")), Restore(Path("y"))]),
    st.builds(Loaded, _NUMBERS, _NUMBERS),
    st.builds(Piece, _NUMBERS, st.text(), st.lists(_LOGPROBS, max_size=3).map(tuple)),
    st.builds(Finished, _NUMBERS, st.just("stop"), st.builds(Profile, ttft=st.floats(0, 9))),
    st.builds(Failed, st.just("usage"), st.text(), st.none() | st.text(), st.none() | _NUMBERS),
)


@given(MESSAGES)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert protocol.WIRE.unpack(protocol.WIRE.pack(message)[4:]) == message


def test_an_engine_that_nobody_knows_is_no_message() -> None:
    body = protocol.WIRE.pack(Load(Path("/"), "genie"))[4:].replace(b"genie", b"djinn")
    with pytest.raises(ProtocolError, match="djinn"):
        protocol.WIRE.unpack(body)

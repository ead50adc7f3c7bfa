"""Messages arrive as they were sent, and nothing else is taken for one."""

import os
import threading
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
    ProtocolError,
    Reset,
    Restore,
    Save,
)

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
    assert protocol.unpack(protocol.pack(message)[4:]) == message


@given(st.binary(max_size=60))
def test_other_bytes_are_no_message(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.unpack(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'["Cancel",{}]', id="a-field-is-missing"),
        pytest.param(b'["Cancel",{"number":1,"more":2}]', id="one-too-many"),
        pytest.param(b'["Cancel",{"number":"1"}]', id="text-for-a-number"),
        pytest.param(b'["Cancel",{"number":true}]', id="truth-for-a-number"),
        pytest.param(b'["Profile",{}]', id="no-message"),
        pytest.param(b'["Cancel"]', id="no-fields"),
        pytest.param(
            b'["Load",{"folder":"/","engine":"cpu","sliding_window":false,"version":1}]',
            id="no-such-engine",
        ),
    ],
)
def test_what_is_almost_a_message(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.unpack(body)


def test_large_messages_go_through_a_pipe() -> None:
    message = Generate(1, tuple(range(50_000)), SamplingOptions())
    source, target = os.pipe()

    def write() -> None:
        protocol.send(target, message)
        os.close(target)

    writer = threading.Thread(target=write)
    writer.start()
    assert protocol.receive(source) == message
    assert protocol.receive(source) is None
    writer.join()
    os.close(source)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        pytest.param(b"Hello from a library\n", "begins no message", id="text"),
        pytest.param(protocol.pack(Close())[:-1], "ended inside a message", id="cut"),
        pytest.param(b"\0\0", "ended inside a message", id="cut-in-its-length"),
    ],
)
def test_a_stream_that_is_spoiled(written: bytes, says: str) -> None:
    source, target = os.pipe()
    os.write(target, written)
    os.close(target)
    with pytest.raises(ProtocolError, match=says):
        protocol.receive(source)
    os.close(source)


def test_a_message_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_BYTES", 100)
    with pytest.raises(ProtocolError, match="too large"):
        protocol.pack(Piece(1, "x" * 200))

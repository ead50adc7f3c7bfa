"""Messages arrive as they were sent, and nothing else is taken for one."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_runtimes.workers.wire import ProtocolError, Wire, write


@dataclass(frozen=True, slots=True)
class Branch:
    """Has itself in its fields."""

    data: bytes
    more: tuple["Branch", ...] = ()


@dataclass(frozen=True, slots=True)
class Everything:
    number: int
    share: float
    text: str | None = None
    kind: Literal["a", "b"] = "a"
    pairs: tuple[tuple[int, float], ...] = ()
    names: frozenset[str] = frozenset()
    place: Path = Path()
    branch: Branch = field(default_factory=lambda: Branch(b""))


@dataclass(frozen=True, slots=True)
class Number:
    number: int


@dataclass(frozen=True, slots=True)
class End:
    pass


Message: TypeAlias = Everything | Number | End
WIRE: Wire[Message] = Wire((Everything, Number, End))

_FLOATS = st.floats(allow_nan=False)
_BRANCHES = st.builds(
    Branch, st.binary(max_size=6), st.lists(st.builds(Branch, st.binary())).map(tuple)
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Everything,
        st.integers(),
        _FLOATS,
        st.none() | st.text(st.characters()),
        st.sampled_from(["a", "b"]),
        st.lists(st.tuples(st.integers(), _FLOATS), max_size=3).map(tuple),
        st.frozensets(st.text(), max_size=3),
        st.just(Path("/a/b")),
        _BRANCHES,
    ),
    st.builds(Number, st.integers()),
    st.just(End()),
)  # fmt: skip


@given(MESSAGES)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert WIRE.unpack(WIRE.pack(message)[4:]) == message


@given(st.binary(max_size=60))
def test_other_bytes_are_no_message(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        WIRE.unpack(body)


_BEGIN = b'["Everything",[1,2.5,null,'


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'["Number",[]]', id="a-field-is-missing"),
        pytest.param(b'["Number",[1,2]]', id="one-too-many"),
        pytest.param(b'["Number",["1"]]', id="text-for-a-number"),
        pytest.param(b'["Number",[true]]', id="truth-for-a-number"),
        pytest.param(b'["Number",{"number":1}]', id="named-fields"),
        pytest.param(b'["Branch",["",[]]]', id="no-message"),
        pytest.param(b'["Number"]', id="no-fields"),
        pytest.param(_BEGIN + b'"c",[],[],"",["",[]]]]', id="none-of-the-words"),
        pytest.param(_BEGIN + b'"a",[[1]],[],"",["",[]]]]', id="half-a-pair"),
        pytest.param(_BEGIN + b'"a",[],[],"",[1,[]]]]', id="number-for-bytes"),
        pytest.param(_BEGIN + b'"a",[],"x","",["",[]]]]', id="text-for-a-list"),
        pytest.param(b"[" * 100_000, id="without-a-bottom"),
    ],
)
def test_what_is_almost_a_message(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        WIRE.unpack(body)


def _piped(fill: Callable[[int], object]) -> list[Message]:
    """The messages of a pipe that another thread writes."""
    source, target = os.pipe()

    def work() -> None:
        fill(target)
        os.close(target)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        return list(WIRE.messages(source))
    finally:
        writer.join()
        os.close(source)


def test_large_and_many_messages_go_through_a_pipe() -> None:
    large = Everything(1, 2.0, pairs=tuple((n, 0.5) for n in range(20_000)))
    sent: list[Message] = [large, *(Number(n) for n in range(5000)), large, End()]
    assert _piped(lambda pipe: write(pipe, b"".join(map(WIRE.pack, sent)))) == sent


@pytest.mark.parametrize(
    ("written", "says"),
    [
        pytest.param(b"Hello from a library\n", "begins no message", id="text"),
        pytest.param(WIRE.pack(End())[:-1], "ended inside a message", id="cut"),
        pytest.param(b"\0\0", "ended inside a message", id="cut-in-its-length"),
    ],
)
def test_a_stream_that_is_spoiled(written: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        _piped(lambda pipe: os.write(pipe, written))


def test_what_cannot_be_sent() -> None:
    small: Wire[Message] = Wire((Everything,), max_bytes=100)
    with pytest.raises(ProtocolError, match="too large"):
        small.pack(Everything(1, 1.0, "x" * 200))
    with pytest.raises(ProtocolError, match="cannot be sent: range has no form"):
        small.pack(Everything(1, 1.0, pairs=range(3)))  # type: ignore[arg-type]


def test_other_messages_have_another_digest() -> None:
    class Other:
        @dataclass
        class Number:
            number: str

    digests = {
        Wire[Message](kinds).digest
        for kinds in ((Everything, Number, End), (Everything, Other.Number, End), (Number, End))
    }
    assert len(digests) == 3
    assert Wire[Message]((Everything, Number, End)).digest == WIRE.digest

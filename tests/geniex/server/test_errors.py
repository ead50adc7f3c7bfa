"""The table of errors for clients: whole, in their words, without the paths of this machine."""

from collections.abc import Iterator

import pytest

from geniex.server.errors import ANSWERS, ROWS, RequestError, describe, row_of, without_paths
from geniex_catalogue import errors as e
from geniex_catalogue.names import parse
from geniex_runtimes import errors as r


def classes(base: type[e.GenieXError]) -> Iterator[type[e.GenieXError]]:
    yield base
    for kind in base.__subclasses__():
        yield from classes(kind)


OURS = sorted({k for k in classes(e.GenieXError) if k.__module__.startswith("geniex")}, key=str)


@pytest.mark.parametrize("kind", [k for k in OURS if k is not RequestError])
def test_each_class_has_a_row(kind: type[e.GenieXError]) -> None:
    # a finer kind that is made elsewhere, for those who catch it, has the row of its base
    row = ROWS[kind] if kind.__module__ in (e.__name__, r.__name__) else row_of(kind)
    assert (row is ROWS[e.GenieXError]) == (kind is e.GenieXError)
    # a status that the OpenAPI document does not declare would surprise clients
    assert row.status in ANSWERS
    assert row.retry == (row.status == 503)


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        pytest.param(e.UsageError("x"), 400, "invalid_value", None, id="use"),
        pytest.param(e.ModelRefError("x"), 404, "model_not_found", "model", id="name"),
        pytest.param(e.ModelNotFoundError("x"), 404, "model_not_found", "model", id="model"),
        pytest.param(
            e.PrecisionNotFoundError("o/r", "Q2_K", ["Q8_0"]),
            *(404, "model_not_found", "model"),
            id="precision",
        ),
        pytest.param(
            e.DraftNotFoundError("o/r"),
            *(400, "draft_model_not_found", "spec_draft_model"),
            id="draft",
        ),
        pytest.param(
            r.ContextLengthError(9, 4), 400, "context_length_exceeded", "messages", id="context"
        ),
        pytest.param(e.ServerBusyError("x"), 503, "server_busy", None, id="busy"),
        pytest.param(e.LoadError("x"), 500, "model_load_failed", None, id="load"),
        pytest.param(e.RoleError("x"), 400, "model_not_usable", "model", id="role"),
        pytest.param(r.GenerationError("x"), 500, "generation_failed", None, id="generation"),
        pytest.param(
            RequestError("x", param="stop", code="c", status=413), 413, "c", "stop", id="request"
        ),
        pytest.param(ZeroDivisionError("x"), 500, "internal_error", None, id="unforeseen"),
        pytest.param(MemoryError(), 500, "internal_error", None, id="memory"),
    ],
)
def test_status_and_body(error: BaseException, status: int, code: str, param: str | None) -> None:
    answered, body, headers = describe(error)
    assert answered == status
    assert (body.error.code, body.error.param) == (code, param)
    assert body.error.type == ("server_error" if status >= 500 else "invalid_request_error")
    assert ("retry-after" in headers) == (status == 503)


def message_of(error: BaseException) -> str:
    return describe(error)[1].error.message


def test_both_numbers_of_a_context_that_is_too_short() -> None:
    text = message_of(r.ContextLengthError(5000, 4096))
    # clients look for this sentence to tell this error from others
    assert text.startswith("This model's maximum context length is 4096 tokens.")
    assert "requested 5000 tokens" in text


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (e.ModelNotFoundError("o/rr", ["o/r"]), ["`o/rr`", "mean `o/r`?", "geniex pull"]),
        (e.ModelNotFoundError("o/r", hint="run `geniex pull o/r` first"), ["`geniex pull o/r`"]),
        (e.DraftNotFoundError("o/r"), ["draft model `o/r`", "`geniex pull o/r`"]),
        (r.MemoryBudgetError("o/r", 5000, 400), ["5000 bytes", "400 bytes"]),
        (e.UsageError("raise `--draft-tokens`", hint="or lower `--draft-min`"), ["`spec_n_max`"]),
        (e.UsageError("x", hint="leave `--draft-model` out"), ["`spec_draft_model`"]),
    ],
)
def test_the_next_step_in_the_words_of_a_client(error: e.GenieXError, parts: list[str]) -> None:
    text = message_of(error)
    assert all(part in text for part in parts), text
    assert "--" not in text


_FETCH = "`geniex pull org/repo` on the server fetches a model"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(e.ModelNotFoundError("o/r"), f"model `o/r` not found. {_FETCH}", id="bare"),
        pytest.param(
            e.ModelNotFoundError("o/rr", ["o/r", "o/s"]),
            f"model `o/rr` not found. Did you mean `o/r` or `o/s`? If not, {_FETCH}",
            id="near",
        ),
        pytest.param(
            e.ModelNotFoundError("o/rr", ["o/r"], hint="run `geniex pull o/rr` first"),
            "model `o/rr` not found. Did you mean `o/r`? If not, run `geniex pull o/rr` first",
            id="near, or to be pulled",
        ),
        pytest.param(
            e.ModelNotFoundError("o/r", hint="that file is not a model that can be run"),
            "model `o/r` not found. That file is not a model that can be run",
            id="a reason of its own",
        ),
    ],
)
def test_a_model_that_is_not_here_has_one_next_step(error: e.GenieXError, text: str) -> None:
    assert message_of(error) == text


def test_a_name_that_is_no_alias_has_one_next_step() -> None:
    with pytest.raises(e.ModelNotFoundError) as caught:
        parse("nosuch")
    assert message_of(caught.value) == f"model `nosuch` not found. {_FETCH}"


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "1"), (0.2, "1"), (2.1, "3"), (60, "60")])
def test_when_to_come_again(seconds: float, shown: str) -> None:
    _, _, headers = describe(e.ServerBusyError("x", retry_after=seconds))
    assert headers == {"retry-after": shown}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("`/home/me/models/a b/x.gguf` is no GGUF", "`x.gguf` is no GGUF"),
        ("cannot read /srv/models/x.gguf: gone", "cannot read x.gguf: gone"),
        ("`C:\\Users\\me\\x.gguf` is bad", "`x.gguf` is bad"),
        ("see C:/Users/me/x.gguf, it is bad", "see x.gguf, it is bad"),
        ("`\\\\host\\share\\x.gguf` is bad", "`x.gguf` is bad"),
        ("`~/models/x.gguf` is bad", "`x.gguf` is bad"),
        ("model `org/repo:Q4_0` not found", "model `org/repo:Q4_0` not found"),
        ("see https://host.example/a/b", "see https://host.example/a/b"),
        ("`GET /v1/models` lists them", "`GET /v1/models` lists them"),
        ("5 tokens/s and 1/2", "5 tokens/s and 1/2"),
        ("there is no `#/$defs/a/b`", "there is no `#/$defs/a/b`"),
    ],
)
def test_paths_stay_here(text: str, shown: str) -> None:
    assert without_paths(text) == shown


def test_what_cannot_be_sent_is_left_out() -> None:
    assert message_of(e.UsageError("half \ud800 a character")).encode()


def test_a_new_class_takes_its_base() -> None:
    class NewError(e.TransferError):
        pass

    assert row_of(NewError) is ROWS[e.TransferError]
    del NewError

"""Requests to a server, with its refusals as our errors."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from geniex.address import Address
from geniex_catalogue.errors import (
    GenieXError,
    ModelNotFoundError,
    ServerBusyError,
    ServerError,
    ServerUnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    import httpx2

CONNECT = 10.0  # seconds
# seconds of silence in the middle of an answer: a server says something every few of them
STALL = 120.0
# a first sentence and what follows it; names, between backticks, may hold anything
_SENTENCE = re.compile(r"((?:`[^`]*`|[^`])*?)\. (.+)", re.DOTALL)
_FLAGS = {
    "spec_type": "--spec-type",
    "spec_draft_model": "--draft-model",
    "spec_n_max": "--draft-tokens",
    "spec_n_min": "--draft-min",
    "spec_p_min": "--draft-p-min",
    "require_spec": "--require-spec",
}
_FIELD = re.compile(rf"\b({'|'.join(_FLAGS)})\b")
# words of any text as well, so only where a text quotes them
_QUOTED = re.compile(r"`(compute|require|nctx|ngl|kv_type)(?=[ `])")
# the request is a right one, but not for this machine
_UNABLE = ("no_runtime", "insufficient_memory", "model_not_usable")
_CAPITAL = re.compile(r"[A-Z][a-z ]")


class Server:
    """A server at an address; `api_key` is what it asks for, if it does. A context manager."""

    def __init__(self, address: Address, api_key: str | None = None) -> None:
        """Nothing is sent yet. Raises UsageError for a key that cannot be sent."""
        import httpx2

        address = address.reached()
        self.url = address.url
        headers = {"user-agent": "geniex"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise UsageError("an API key has printable ASCII characters only")
            headers["authorization"] = f"Bearer {api_key}"
        self._client = httpx2.Client(
            headers=headers,
            timeout=httpx2.Timeout(None, connect=CONNECT),
            # a proxy that the environment names does not lead back to this machine
            trust_env=not address.loopback,
        )

    def ps(self) -> list[dict[str, Any]]:
        """What is loaded. Raises ServerUnreachableError, ServerError."""
        return _items(self._ask("GET", "/v1/ps"))

    def load(self, name: str, fields: Mapping[str, object]) -> dict[str, Any]:
        """Load a model; the answer is its facts, as `ps` has them.

        `fields` are those of a request that choose how. Raises ModelNotFoundError,
        ServerBusyError, UsageError, ServerUnreachableError, ServerError.
        """
        answer = self._ask("POST", f"/v1/models/{quote(name, safe='')}/load", fields)
        return answer if isinstance(answer, dict) else {}

    def stream(self, path: str, body: Mapping[str, object]) -> "Stream":
        """Start a request whose answer is a stream of events.

        Raises what `load` raises, as soon as the server refuses.
        """
        import httpx2

        with self._translated():
            request = self._client.build_request(
                "POST", f"{self.url}{path}", json=body, timeout=httpx2.Timeout(STALL)
            )
            response = self._client.send(request, stream=True)
            if response.status_code >= 400:
                response.read()
        self._check(response)
        return Stream(response, self._translated)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        with self._translated():
            response = self._client.request(method, f"{self.url}{path}", json=body)
        self._check(response)
        try:
            return response.json()
        except (ValueError, RecursionError) as exc:
            raise self._foreign() from exc

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the HTTP library's errors into ours."""
        import httpx2

        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as exc:
            raise ServerUnreachableError(
                f"no server answers at {self.url} ({_reason(exc)})"
            ) from exc
        except httpx2.SSEError as exc:
            raise self._foreign() from exc
        except httpx2.TimeoutException as exc:
            raise ServerError(f"the server at {self.url} sends nothing any more") from exc
        except (httpx2.TransportError, httpx2.StreamError) as exc:
            raise ServerError(
                f"the connection to the server at {self.url} broke ({_reason(exc)})"
            ) from exc
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise ServerError(f"the server at {self.url} cannot be asked: {_reason(exc)}") from exc

    def _check(self, response: "httpx2.Response") -> None:
        """Raise what a status of 400 and up means."""
        if response.status_code < 400:
            return
        try:
            body: object = response.json()
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or "error" not in body:
            raise self._foreign()
        raise refusal(response.status_code, body, response.headers.get("retry-after"))

    def _foreign(self) -> ServerError:
        return ServerError(
            f"what answers at {self.url} is not a geniex server",
            hint="`--host` or GENIEX_HOST says where the server is",
        )


class Stream:
    """The events of an answer, each as its JSON; close it to stop the server's work on them."""

    def __init__(
        self,
        response: "httpx2.Response",
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._response = response
        self._translated = translated
        self._closed = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Raises ServerError where the server fails, or the stream ends too early."""
        try:
            yield from self._events()
        except ServerError:
            if not self._closed:
                raise

    def _events(self) -> Iterator[dict[str, Any]]:
        import httpx2

        ended = False
        with self._translated():
            for event in httpx2.EventSource(self._response):
                if event.data == "[DONE]":
                    ended = True
                    break
                data = _parsed(event.data)
                if "error" in data:
                    raise refusal(None, data)
                yield data
        if not ended:
            raise ServerError("the server ended its answer before the end")

    def close(self) -> None:
        """Hang up; nothing happens after the end. Who iterates gets no more."""
        self._closed = True
        self._response.close()


def refusal(
    status: int | None, body: Mapping[str, Any], retry_after: str | None = None
) -> GenieXError:
    """The error in a body as the server writes them; `status` None is in a stream."""
    detail = body["error"]
    facts = detail if isinstance(detail, dict) else {"message": str(detail)}
    message, code = str(facts.get("message")), facts.get("code")
    # servers speak to clients, here a person reads it
    message = message.replace("`GET /v1/models`", "`geniex list` on the server")
    message = _FIELD.sub(lambda field: _FLAGS[field[1]], message)
    message = _QUOTED.sub(lambda field: f"`--{field[1].replace('_', '-')}", message)
    if code in ("model_not_found", "draft_model_not_found"):
        return _missing(message)
    if status in (429, 503):
        seconds = float(retry_after) if retry_after and retry_after.isdecimal() else 1.0
        return ServerBusyError(message, retry_after=seconds)
    if status == 401:
        return ServerError(
            message, code=code, hint="give its key with `--api-key`, or set GENIEX_APIKEY"
        )
    if code == "context_length_exceeded":
        more = "" if "is fixed" in message else ", or raise the context with `--nctx`"
        hint = f"shorten the prompt{more}"
        return ServerError(message, code=code, hint=hint)
    if code in _UNABLE or facts.get("type") != "invalid_request_error":
        return ServerError(message, code=code if isinstance(code, str) else None)
    return UsageError(message)


def _missing(message: str) -> ModelNotFoundError:
    """The error for a model that the server lacks: its first sentence, and its next step if any."""
    found = _SENTENCE.match(message)
    first, step = found.groups() if found else (message, "")
    if _CAPITAL.match(step):
        step = step[0].lower() + step[1:]
    missing = ModelNotFoundError("", hint=step or "a server pulls nothing: pull where it runs")
    missing.message, missing.args = first, (first,)
    return missing


def _parsed(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ServerError("the server sent an event that is no JSON") from exc
    if not isinstance(data, dict):
        raise ServerError("the server sent an event that is no object")
    return data


def _items(answer: object) -> list[dict[str, Any]]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ServerError("the server's list of loaded models is none")
    return data


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__

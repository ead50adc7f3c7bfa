"""A process that renders one chat template; run as a script by `geniex.chat.sandbox`.

A template comes from a stranger's file, and no lock inside Python can stop every expression that
runs for ever or eats all memory. A process can be stopped. This one says `{}` when it is ready,
then reads a JSON object per line and answers each with one: first `{"source", "memory"}`, then any
number of `{"context", "hidden", "seconds", "characters"}`. Answers are `{"names"}`, `{"text"}` or
`{"error", "message"}` with error "refused" (the template's own raise_exception), "failed" or
"limit". `characters` of output are allowed, and four times what came in.
"""

import contextlib
import datetime
import faulthandler
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_MESSAGE_CHARACTERS = 2000


class _Refused(Exception):
    """What a template raises by raise_exception."""


class _Limit(Exception):
    """A result longer than allowed."""


def _limit_memory(size: int) -> None:
    # Windows has no such limit: there, and everywhere as well, the parent watches the memory
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _raise_exception(message: object) -> None:
    raise _Refused(str(message))


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _tojson(hidden: dict[str, str]) -> Callable[..., str]:
    """The `tojson` filter: no HTML escapes, and typed control tokens escaped as JSON wants."""

    def tojson(
        value: object,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        def quoted(text: str) -> str:
            return json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]

        text = json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )
        for char, token in hidden.items():
            text = text.replace(quoted(char), char if quoted(token) == token else quoted(token))
        return text

    return tojson


def _environment(hidden: dict[str, str]) -> "ImmutableSandboxedEnvironment":
    """Jinja as chat templates expect it: the settings and names that transformers gives them."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks the assistant's words for training; here it changes nothing."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson(hidden)
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class _Worker:
    """Answers one request after the other."""

    def __init__(self) -> None:
        self._hidden: dict[str, str] = {}
        self._environment = _environment(self._hidden)

    def compile(self, line: bytes) -> dict[str, Any]:
        """Compile the template; answers the names that it reads from outside."""
        from jinja2 import meta

        request = json.loads(line)
        _limit_memory(request["memory"])
        parsed = self._environment.parse(request["source"])
        names = meta.find_undeclared_variables(parsed)
        self._template = self._environment.from_string(parsed)
        return {"names": sorted(names)}

    def render(self, line: bytes) -> dict[str, Any]:
        """Render the template with the request's context."""
        request = json.loads(line)
        # outlives the parent: a template that never ends must not spin on after a killed parent
        faulthandler.dump_traceback_later(request["seconds"], exit=True)
        try:
            self._hidden.clear()
            self._hidden.update(request["hidden"])
            text: list[str] = []
            limit = room = request["characters"] + 4 * len(line)
            for piece in self._template.generate(request["context"]):
                room -= len(piece)
                if room < 0:
                    raise _Limit(f"wrote more than {limit} characters")
                text.append(piece)
            return {"text": "".join(text)}
        finally:
            faulthandler.cancel_dump_traceback_later()


def _answer(handle: Callable[[bytes], dict[str, Any]], line: bytes) -> dict[str, Any]:
    try:
        return handle(line)
    except _Refused as refused:
        return {"error": "refused", "message": str(refused)[:_MESSAGE_CHARACTERS]}
    except _Limit as limit:
        return {"error": "limit", "message": str(limit)}
    except MemoryError:
        return {"error": "limit", "message": "needed too much memory"}
    except Exception as exc:
        # whatever the template made happen is its own failure; the parent raises it again
        reason = f"{type(exc).__name__}: {getattr(exc, 'message', None) or exc}"
        if (number := getattr(exc, "lineno", None)) is not None:
            reason += f" (line {number})"
        return {"error": "failed", "message": reason[:_MESSAGE_CHARACTERS]}


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Serve requests from stdin until it closes."""
    worker = _Worker()
    handle = worker.compile
    _say({})
    while line := sys.stdin.buffer.readline():
        _say(_answer(handle, line))
        handle = worker.render


if __name__ == "__main__":
    main()

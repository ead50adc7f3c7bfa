"""Traces by OpenTelemetry: a span for each request, with spans for load, queue, prefill and decode.

It is set up by the standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like) and needs the
extra `otel`. Attributes are those of the semantic conventions for HTTP servers and for GenAI; no
text of a prompt or an answer is among them. Spans are sent by a thread of their own: a collector
that does not answer stops nobody, and is told of once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from geniex import __version__
from geniex_catalogue.extras import install
from geniex_catalogue.offline import is_yes

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

    from geniex.server.observed import Generated, Observed

_log = logging.getLogger("geniex.server.tracing")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_FAREWELL = 2.0  # seconds that the last spans get to be sent
_OPERATIONS = {
    "chat/completions": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}


def tracing_from(environ: Mapping[str, str]) -> Tracing | None:
    """Tracing as the variables say; None where they say nothing, or it cannot be, with a warning.

    `OTEL_TRACES_EXPORTER=otlp` alone sends to the standard's own address, on this machine.
    """
    kinds = {kind.strip() for kind in environ.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    named = next((environ[name] for name in _ENDPOINTS if environ.get(name)), None)
    if is_yes(environ.get("OTEL_SDK_DISABLED", "")) or "none" in kinds:
        return None
    if named is None and not kinds:
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if kinds - {"otlp"}:
        return _refused(f"OTEL_TRACES_EXPORTER={','.join(sorted(kinds))}: `otlp` is what there is")
    if protocol != _PROTOCOL:
        return _refused(f"the protocol `{protocol}` is not there: `{_PROTOCOL}` is")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        return _refused(install("otel"))
    try:
        tracing = Tracing(OTLPSpanExporter())
    except Exception as exc:  # what the variables hold is the user's, and is read by the SDK
        return _refused(f"{type(exc).__name__}: {exc}")
    _log.info("traces are sent to %s", _host_of(named) if named else "the collector here")
    return tracing


def _refused(problem: str) -> Tracing | None:
    _log.warning("OTEL_* variables are set, but no traces are sent: %s", problem)
    return None


def _host_of(address: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


class Tracing:
    """Makes spans of requests. All methods may be called from any thread, and never block."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from geniex.server.span_sending import PatientExporter

        # what the SDK says of each failed attempt: ours says it once
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource.create()
        own = {"service.name": "geniex", "service.version": __version__}
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
        if not str(resource.attributes["service.name"]).startswith("unknown_service"):
            own["service.name"] = str(resource.attributes["service.name"])
        resource = resource.merge(Resource(own))
        self._exporter = PatientExporter(exporter)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer: Tracer = self._provider.get_tracer("geniex.server", __version__)

    def begin(self, request: Observed, scope: Scope) -> None:
        """Begin the span of a request, below the one that its `traceparent` names."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        headers = Headers(scope=scope)
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        request.span = self._tracer.start_span(
            request.method,
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=SpanKind.SERVER,
            attributes=_of_server(request, scope),
            start_time=request.started,
        )

    def end(self, request: Observed) -> None:
        """End the span of a request, with all that is known by now."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span = request.span
        if span is None:
            return
        if span.is_recording():
            span.update_name(f"{request.method} {request.route}")
            span.set_attributes(_of_request(request))
            if request.status >= 500:
                span.set_status(Status(StatusCode.ERROR, request.error))
            around = set_span_in_context(span)
            for name, since, until, facts in _phases(request):
                child = self._tracer.start_span(
                    name, context=around, start_time=since, attributes=facts
                )
                child.end(until)
        span.end(request.started + round(request.seconds * 1e9))

    def close(self) -> None:
        """Send what waits, as far as that goes soon."""
        thread = threading.Thread(target=self._provider.shutdown, daemon=True)
        thread.start()
        thread.join(_FAREWELL)
        self._exporter.shutdown()


def _of_server(request: Observed, scope: Scope) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "http.request.method": request.method,
        "url.scheme": scope.get("scheme", "http"),
        "geniex.request_id": request.id,
    }
    if server := scope.get("server"):
        facts |= {"server.address": str(server[0]), "server.port": server[1] or 0}
    return facts


def _of_request(request: Observed) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "http.route": request.route,
        "http.response.status_code": request.status,
    }
    operation = _OPERATIONS.get(request.route.removeprefix("/").removeprefix("v1/"))
    if operation is not None:
        facts |= {"gen_ai.operation.name": operation, "gen_ai.provider.name": "geniex"}
    asked = request.asked or request.model
    if asked is not None:
        facts["gen_ai.request.model"] = asked
    if request.model is not None:
        facts["gen_ai.response.model"] = request.model
        facts["gen_ai.usage.input_tokens"] = request.prompt_tokens
    if request.generated:
        facts |= {
            "gen_ai.usage.output_tokens": request.total("generated_tokens"),
            "gen_ai.usage.cache_read.input_tokens": request.total("cached_tokens"),
            "gen_ai.response.finish_reasons": [one.finish_reason for one in request.generated],
            "geniex.draft_tokens.proposed": request.total("draft_proposed"),
            "geniex.draft_tokens.accepted": request.total("draft_accepted"),
        }
    if request.error is not None or request.status >= 500:
        facts["error.type"] = request.error or str(request.status)
    if request.cancelled:
        facts["geniex.cancelled"] = True
    return facts


_Phase = tuple[str, int, int, dict[str, Any]]


def _phases(request: Observed) -> Iterator[_Phase]:
    if request.waited is not None:
        yield "load", *request.waited, {"gen_ai.response.model": request.model or ""}
    for one in request.generated:
        yield from _of_generation(one)


def _of_generation(one: Generated) -> Iterator[_Phase]:
    """Its phases, counted back from its end."""
    profile = one.profile
    decoding = one.ended - round(profile.decode_time * 1e9)
    begun = decoding - round(profile.prompt_time * 1e9)
    yield "queue", begun - round(profile.queue_time * 1e9), begun, {}
    yield (
        *("prefill", begun, decoding),
        {
            "gen_ai.usage.input_tokens": profile.prompt_tokens,
            "gen_ai.usage.cache_read.input_tokens": profile.cached_tokens,
        },
    )
    yield (
        *("decode", decoding, one.ended),
        {"gen_ai.usage.output_tokens": profile.generated_tokens},
    )

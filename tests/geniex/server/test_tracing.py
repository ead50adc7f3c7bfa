"""Traces of requests: by an exporter in memory, and by the real one to a collector on loopback."""

import logging
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from geniex.server.span_sending import PatientExporter
from geniex.server.tracing import Tracing, tracing_from
from tests.geniex.server.conftest import MODEL, Serve

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "the secret of the owl"}]}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Traced:
    """A server whose spans are kept in memory."""

    def __init__(self, serve: Serve) -> None:
        self._spans = InMemorySpanExporter()
        self._tracing = Tracing(self._spans)
        self.client = serve(tracing=self._tracing).client

    def spans(self) -> dict[str, ReadableSpan]:
        """The spans by name, once all have been sent."""
        self._tracing.close()
        return {span.name: span for span in self._spans.get_finished_spans()}


@pytest.fixture
def traced(serve: Serve) -> Traced:
    return Traced(serve)


def test_a_chat_and_its_phases(traced: Traced) -> None:
    usage = traced.client.post("/v1/chat/completions", json=CHAT).json()["usage"]
    spans = traced.spans()
    request = spans.pop("POST /v1/chat/completions")
    assert (
        dict(request.attributes or {}).items()
        >= {
            "http.request.method": "POST",
            "http.route": "/v1/chat/completions",
            "http.response.status_code": 200,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "geniex",
            "gen_ai.request.model": MODEL,
            "gen_ai.response.model": MODEL,
            "gen_ai.usage.input_tokens": usage["prompt_tokens"],
            "gen_ai.usage.output_tokens": usage["completion_tokens"],
            "gen_ai.response.finish_reasons": ("stop",),
        }.items()
    )
    assert sorted(spans) == ["decode", "load", "prefill", "queue"]
    for span in spans.values():
        assert span.parent is not None and request.context is not None
        assert span.parent.span_id == request.context.span_id
        assert span.start_time is not None and span.end_time is not None
        assert span.start_time <= span.end_time
    assert spans["queue"].end_time == spans["prefill"].start_time
    assert spans["prefill"].end_time == spans["decode"].start_time
    assert dict(request.resource.attributes).items() >= {"service.name": "geniex"}.items()


def test_the_callers_trace_goes_on(traced: Traced) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    traced.client.get("/health", headers=headers)
    span = traced.spans()["GET /health"]
    assert span.parent is not None and span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT


@pytest.mark.parametrize("given", ["", "nonsense", f"00-{TRACE}-{PARENT}", "00-0-0-0"])
def test_a_broken_trace_is_a_new_one(traced: Traced, given: str) -> None:
    assert traced.client.get("/health", headers={"traceparent": given}).status_code == 200
    assert traced.spans()["GET /health"].parent is None


def test_who_is_not_sampled_is_not_sent(traced: Traced) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    assert traced.client.get("/health", headers=headers).status_code == 200
    assert traced.spans() == {}


def test_a_failure_names_its_class(traced: Traced) -> None:
    traced.client.post("/v1/embeddings", json={"model": "no/where", "input": "x"})
    attributes = dict(traced.spans()["POST /v1/embeddings"].attributes or {})
    assert attributes["error.type"] == "ModelNotFoundError"
    assert attributes["gen_ai.operation.name"] == "embeddings"
    assert attributes["gen_ai.request.model"] == "no/where"


def test_no_text_and_no_secret_is_sent(traced: Traced) -> None:
    headers = {"authorization": "Bearer hidden-key"}
    traced.client.post("/v1/chat/completions?key=hidden", json=CHAT, headers=headers)
    said = "".join(span.to_json() for span in traced.spans().values())
    assert "owl" not in said and "Hello" not in said and "hidden" not in said


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector on loopback: its address, and what it was sent."""
    sent: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["content-length"]))
            sent.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", sent
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_standard_variables_lead_to_a_collector(
    serve: Serve, collector: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "geniex.server.tracing")
    url, sent = collector
    for name, value in {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url.replace("://", "://user:hidden@"),
        "OTEL_SERVICE_NAME": "mine",
    }.items():
        monkeypatch.setenv(name, value)
    import os

    tracing = tracing_from(os.environ)
    assert tracing is not None
    assert f"traces are sent to {url}" in caplog.text and "hidden" not in caplog.text
    serve(tracing=tracing).client.get("/health")
    tracing.close()
    (request,) = sent
    (resource,) = request.resource_spans
    facts = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert facts["service.name"] == "mine" and facts["service.version"]
    assert [s.name for scope in resource.scope_spans for s in scope.spans] == ["GET /health"]


@pytest.mark.parametrize("kind", ["nobody listens", "nobody answers"])
def test_a_collector_that_takes_nothing_stops_nobody(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if kind == "nobody listens":
            listener.close()
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        tracing = tracing_from(environ)
        assert tracing is not None
        client = serve(tracing=tracing).client
        assert all(client.get("/health").status_code == 200 for _ in range(5))
        tracing.close()
        assert client.get("/health").status_code == 200
    assert caplog.text.count("the collector of traces takes none") <= 1


def test_a_collector_that_is_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "geniex.server.tracing")

    class Away(InMemorySpanExporter):
        answer: SpanExportResult | Exception = SpanExportResult.FAILURE

        def export(self, spans: Any) -> SpanExportResult:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    below = Away()
    exporter = PatientExporter(below)
    for answer in (SpanExportResult.FAILURE, OSError("no"), SpanExportResult.SUCCESS):
        below.answer = answer
        exporter.export([])
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"OTEL_SERVICE_NAME": "x"}, None, id="a name alone"),
        pytest.param({"OTEL_TRACES_EXPORTER": "none"}, None, id="none"),
        pytest.param(
            {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
            None,
            id="disabled",
        ),
        pytest.param({"OTEL_TRACES_EXPORTER": "console"}, "`otlp` is what there is", id="console"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "`http/protobuf` is",
            id="grpc",
        ),
    ],
)
def test_where_nothing_is_traced(
    environ: dict[str, str], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert tracing_from(environ) is None
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (said is not None)
    assert said is None or said in messages[0]


def test_without_the_extra_one_warning_says_how(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missing = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, missing, None)
    assert tracing_from({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) is None
    (record,) = caplog.records
    assert 'pip install "opentelemetry-sdk' in record.getMessage()


def test_a_value_that_the_sdk_does_not_take(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-5")
    assert tracing_from({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) is None
    (record,) = caplog.records
    assert "ValueError" in record.getMessage()

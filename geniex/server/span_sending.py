"""Sends spans, and says once that nobody takes them.

Imports the SDK of OpenTelemetry: only who traces imports this.
"""

import logging
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_log = logging.getLogger("geniex.server.tracing")


class PatientExporter(SpanExporter):
    """Passes spans on; a collector that cannot be reached is told of once, until it is back."""

    def __init__(self, below: SpanExporter) -> None:
        self._below = below
        self._failing = False
        self._ended = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; those that cannot be sent are lost."""
        if self._ended:
            return SpanExportResult.FAILURE
        try:
            result = self._below.export(spans)
        except Exception as exc:
            _log.debug("sending spans raised %s: %s", type(exc).__name__, exc)
            result = SpanExportResult.FAILURE
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            _log.warning("the collector of traces takes none: spans are lost until it does")
        elif self._failing and not failing:
            _log.info("the collector of traces takes them again")
        self._failing = failing
        return result

    def shutdown(self) -> None:
        """The end, once."""
        if not self._ended:
            self._ended = True
            self._below.shutdown()

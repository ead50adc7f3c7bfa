"""Errors of the layers below, told with the field of the request that they are about."""

from collections.abc import Generator
from typing import TypeVar

from geniex.server.fields import RequestFields
from geniex.server.pump import Job, Work
from geniex_catalogue.errors import UsageError
from geniex_runtimes.errors import ContextLengthError, NoRuntimeError, SpeculativeError

T = TypeVar("T")


def blaming(fields: RequestFields, work: Work[T]) -> Work[T]:
    """The same work; what it raises about the request names the field, where that is known."""

    def run(job: Job) -> Generator[T, None, None]:
        try:
            yield from work(job)
        except (UsageError, NoRuntimeError, SpeculativeError, ContextLengthError) as exc:
            told = fields.blamed(exc)
            if told is exc:
                raise
            raise told from exc

    return run

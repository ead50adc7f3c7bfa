"""What a client should know beside its answer: said in the response, and in the log."""

import logging
from collections.abc import Sequence

from geniex.session import Answer, OpenModel

log = logging.getLogger("geniex.server")


def told(model: OpenModel, answers: Sequence[Answer]) -> list[str]:
    """The warnings of a model's load and choice, then of these answers, each once; logged too.

    Content that was left out (images, audio) is among the answers' notes.
    """
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    for note in notes:
        log.warning("%s: %s", model.resolved.name, note)
    return list(dict.fromkeys((*model.warnings, *notes)))

"""The body of a completion: a text, or token ids, that the model goes on from."""

from typing import Annotated, Final

from pydantic import BeforeValidator, ConfigDict, Field

from geniex.answering import AnswerOptions
from geniex.server.chat_completions.protocol import (
    StreamOptions,
    check_stream,
    limit,
    stops,
)
from geniex.server.fields import Extras
from geniex.server.refusals import about, unsupported
from geniex.server.shapes import MAX_PROMPTS, Stop, check_inputs
from geniex.server.state import ServerState
from geniex_catalogue.errors import GenieXError, UsageError

DEFAULT_MAX_TOKENS: Final = 16

Tokens = Annotated[list[int], Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS)]
TokenLists = Annotated[list[Tokens], Field(min_length=1, max_length=MAX_PROMPTS)]


class CompletionRequest(Extras):
    """A completion that is asked for."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    said = "prompt"

    prompt: Annotated[str | Tokens | Texts | TokenLists, BeforeValidator(check_inputs)] = Field(
        description="A text or token ids, or a list of either. Special tokens in a text count."
    )
    max_tokens: int | None = Field(
        None, ge=-1, description="Most tokens of the answer, 16 by default; -1: no limit."
    )
    n: int | None = Field(None, ge=1, le=128, description="How many choices for each prompt.")
    best_of: int | None = Field(None, ge=1, le=128, description="The same as `n`, or absent.")
    echo: bool | None = Field(None, description="Give the prompt before the answer.")
    suffix: str | None = Field(
        None, description="What comes after the answer, for models with fill-in-the-middle tokens."
    )
    stop: Stop = None
    logprobs: int | None = Field(None, ge=0, le=20, description="How many alternatives to show.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, description="Changes nothing.")

    @property
    def choices(self) -> int:
        """How many choices of each prompt are asked for."""
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one or several."""
        given = self.prompt
        if isinstance(given, str) or isinstance(given[0], int):
            return [given]
        return [*given]

    def check(self) -> None:
        """Raise RequestError for what cannot be honoured, by its name."""
        check_stream(self.stream, self.stream_options)
        if self.best_of is not None and self.best_of != self.choices:
            raise unsupported(
                "`best_of` is not supported: all choices are given, ask for them with `n`",
                "best_of",
            )
        if self.echo and self.logprobs is not None:
            raise unsupported(
                "`logprobs` of a prompt that is echoed are not supported: leave one of them out",
                "echo",
            )

    def blamed(self, error: GenieXError) -> GenieXError:
        """What is not about a grammar is about the prompt: it is empty, or has no such token."""
        blamed = super().blamed(error)
        ours = blamed is error and isinstance(error, UsageError)
        return about(error, "prompt") if ours else blamed

    def options(self, state: ServerState) -> AnswerOptions:
        """How to answer. Raises RequestError, naming the field."""
        given = DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens
        return AnswerOptions(
            sampling=self.sampling(state),
            max_tokens=limit(given),
            stop=stops(self.stop),
            logprobs=self.logprobs,
        )

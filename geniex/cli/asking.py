"""The flags by which `geniex infer` and `geniex run` ask, and what they mean."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex import limits
from geniex.cli import options as shared
from geniex.cli.output import Output
from geniex_catalogue.errors import UsageError

if TYPE_CHECKING:
    from geniex.answering import AnswerOptions
    from geniex.cli.prompts import Turns

DEFAULT_MAX_TOKENS = 2048


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number to sample with")
    return value


def _number(*names: str, help: str, low: float | None = None, high: float | None = None) -> Any:
    limit = limits.LIMITS.get(names[-1].removeprefix("--").replace("-", "_"))
    if limit is not None:
        low, high = limit.low, limit.high
    return typer.Option(*names, help=help, min=low, max=high, callback=_finite)


Prompts = Annotated[
    list[str] | None,
    typer.Option("-p", "--prompt", help="A turn of the user, repeatable; `-` is stdin"),
]
InputFile = Annotated[
    Path | None, typer.Option("-i", "--input", help="A text file that is the first turn")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("-t", "--token-file", help="A file of token numbers: one raw turn, no template"),
]
SystemPrompt = Annotated[
    str | None, typer.Option("-s", "--system-prompt", help="What the model is told first")
]
Temperature = Annotated[
    float | None, _number("--temperature", help="0 is greedy [default: the model's, else 0.8]")
]
TopP = Annotated[
    float | None,
    _number("--top-p", help="[default: the model's, else 0.95]"),
]
TopK = Annotated[
    int | None,
    _number("--top-k", help="0 is off [default: the model's, else 40]"),
]
MinP = Annotated[
    float | None,
    _number("--min-p", help="[default: the model's, else 0.05]"),
]
RepetitionPenalty = Annotated[
    float | None,
    _number("--repetition-penalty", help="1 is off [default: the model's, else 1]"),
]
GrammarPath = Annotated[
    Path | None, typer.Option("--grammar-path", help="A GBNF file that the answer must fit")
]
GrammarString = Annotated[str | None, typer.Option("--grammar-string", help="The same, as text")]
EnableJson = Annotated[bool, typer.Option("--enable-json", help="The answer must be a JSON object")]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", min=-1, help="-1 is until the context is full")
]
Stops = Annotated[
    list[str] | None, typer.Option("--stop", help="Text that ends the answer, repeatable")
]
StopFile = Annotated[
    Path | None, typer.Option("--stop-file", help="A file of such texts, one a line")
]
Think = Annotated[
    bool | None,
    typer.Option("--think/--no-think", help="Reason before answering [default: the model's]"),
]
SpecType = Annotated[
    str | None,
    typer.Option(
        "--spec-type",
        help="Speculative decoding: draft-mtp, auto, none, draft-simple or ngram-..., "
        "several with commas [default: off]",
    ),
]
DraftModel = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        help="The draft: org/repo[:precision], an alias, or a path",
        autocompletion=shared.complete_models,
    ),
]
DraftTokens = Annotated[
    int | None,
    typer.Option(
        "--draft-tokens",
        min=1,
        max=64,
        help="Most draft tokens a step [default: 3, or 15 of n-grams]",
    ),
]
DraftMin = Annotated[
    int | None,
    typer.Option("--draft-min", min=0, help="Drop shorter drafts [default: 0, none]"),
]
DraftPMin = Annotated[
    float | None,
    _number(
        "--draft-p-min", low=0, high=1, help="Stop drafting below this confidence [default: 0]"
    ),
]
RequireSpec = Annotated[
    bool, typer.Option("--require-spec", help="Fail where speculation cannot be set up")
]
PresencePenalty = Annotated[float, _number("--presence-penalty", help="0 is off")]
FrequencyPenalty = Annotated[float, _number("--frequency-penalty", help="0 is off")]
Seed = Annotated[int | None, _number("--seed", help="[default: random]")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was typed about one or more turns, and how they are to be answered."""

    prompts: list[str] | None
    input_file: Path | None
    token_file: Path | None
    system_prompt: str | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float
    frequency_penalty: float
    seed: int | None
    grammar_path: Path | None
    grammar_string: str | None
    enable_json: bool
    max_tokens: int
    stops: list[str] | None
    stop_file: Path | None
    think: bool | None

    def turns(self, output: Output, *, as_json: bool) -> "Turns | None":
        """What to ask, or None where a person sits at the terminal to be asked.

        Raises UsageError for flags that do not go together, and what `read_turns` raises.
        """
        from geniex.cli import prompts

        if self.token_file is not None and (
            self.system_prompt is not None or self.think is not None
        ):
            raise UsageError(
                "`--token-file` is a turn without a template",
                hint="leave out `--system-prompt`, `--think` and `--no-think`",
            )
        for text, flag in ((self.system_prompt, "-s"), (self.grammar_string, "--grammar-string")):
            prompts.check_text(text or "", flag)
        for text in self.stops or ():
            prompts.check_text(text, "--stop")
        turns = prompts.read_turns(
            self.prompts or (), self.input_file, self.token_file, output.note
        )
        if turns is None and as_json:
            raise UsageError(
                "`--json` needs a prompt", hint="give `-p TEXT`, or pipe the prompt in"
            )
        return turns

    def options(self, output: Output) -> "AnswerOptions":
        """How to answer. Raises UsageError for files that do not read and for two grammars."""
        from geniex.answering import AnswerOptions
        from geniex.chat.response_format import ResponseFormat
        from geniex.cli.prompts import read_stops
        from geniex_runtimes.options import SamplingOptions

        return AnswerOptions(
            sampling=SamplingOptions(
                temperature=self.temperature,
                top_p=self.top_p,
                top_k=self.top_k,
                min_p=self.min_p,
                repetition_penalty=self.repetition_penalty,
                presence_penalty=self.presence_penalty,
                frequency_penalty=self.frequency_penalty,
                seed=self.seed,
                grammar=self._grammar(output),
            ),
            max_tokens=None if self.max_tokens < 0 else self.max_tokens,
            stop=(*read_stops(self.stop_file), *(text for text in self.stops or () if text)),
            think=self.think,
            response_format=ResponseFormat("json_object") if self.enable_json else None,
        )

    def _grammar(self, output: Output) -> str | None:
        from geniex.cli.prompts import read_text

        path, text = self.grammar_path, self.grammar_string
        if self.enable_json:
            if path is not None or text is not None:
                raise UsageError(
                    "`--enable-json` is a grammar itself",
                    hint="leave out `--grammar-path` and `--grammar-string`",
                )
            return None
        if path is not None and text is not None:
            output.warn("`--grammar-string` wins over `--grammar-path`")
        return text if text is not None or path is None else read_text(path)

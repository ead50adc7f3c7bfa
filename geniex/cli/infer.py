"""`geniex infer`: ask a model, once or in a chat."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex import limits
from geniex.cli import options as shared
from geniex.cli.output import Output
from geniex_catalogue.errors import GenieXError, UsageError

if TYPE_CHECKING:
    from geniex.cli.conversation import Conversation
    from geniex.cli.prompts import Turns
    from geniex.session import Answer

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


def infer(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="org/repo[:precision], an alias, or a path [default: the configured model]",
            autocompletion=shared.complete_models,
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option("-p", "--prompt", help="A turn of the user, repeatable; `-` is stdin"),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("-i", "--input", help="A text file that is the first turn")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "-t", "--token-file", help="A file of token numbers: one raw turn, no template"
        ),
    ] = None,
    system_prompt: Annotated[
        str | None, typer.Option("-s", "--system-prompt", help="What the model is told first")
    ] = None,
    temperature: Annotated[
        float | None, _number("--temperature", help="0 is greedy [default: the model's, else 0.8]")
    ] = None,
    top_p: Annotated[
        float | None,
        _number("--top-p", help="[default: the model's, else 0.95]"),
    ] = None,
    top_k: Annotated[
        int | None,
        _number("--top-k", help="0 is off [default: the model's, else 40]"),
    ] = None,
    min_p: Annotated[
        float | None,
        _number("--min-p", help="[default: the model's, else 0.05]"),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        _number("--repetition-penalty", help="1 is off [default: the model's, else 1]"),
    ] = None,
    presence_penalty: Annotated[float, _number("--presence-penalty", help="0 is off")] = 0.0,
    frequency_penalty: Annotated[float, _number("--frequency-penalty", help="0 is off")] = 0.0,
    seed: Annotated[int | None, _number("--seed", help="[default: random]")] = None,
    grammar_path: Annotated[
        Path | None, typer.Option("--grammar-path", help="A GBNF file that the answer must fit")
    ] = None,
    grammar_string: Annotated[
        str | None, typer.Option("--grammar-string", help="The same, as text")
    ] = None,
    enable_json: Annotated[
        bool, typer.Option("--enable-json", help="The answer must be a JSON object")
    ] = False,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=-1, help="-1 is until the context is full")
    ] = DEFAULT_MAX_TOKENS,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="Text that ends the answer, repeatable")
    ] = None,
    stop_file: Annotated[
        Path | None, typer.Option("--stop-file", help="A file of such texts, one a line")
    ] = None,
    think: Annotated[
        bool | None,
        typer.Option("--think/--no-think", help="Reason before answering [default: the model's]"),
    ] = None,
    compute: shared.Compute = None,
    runtime: shared.RuntimeName = None,
    nctx: shared.ContextLength = None,
    ngl: shared.GpuLayers = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads [default: free cores]")
    ] = None,
    spec_type: Annotated[
        str | None,
        typer.Option(
            "--spec-type",
            help="Speculative decoding: draft-mtp, auto, none, draft-simple or ngram-..., "
            "several with commas [default: off]",
        ),
    ] = None,
    draft_model: Annotated[
        str | None,
        typer.Option(
            "--draft-model",
            help="The draft: org/repo[:precision], an alias, or a path",
            autocompletion=shared.complete_models,
        ),
    ] = None,
    draft_tokens: Annotated[
        int | None,
        typer.Option("--draft-tokens", min=1, max=64, help="Most draft tokens a step [default: 3]"),
    ] = None,
    draft_min: Annotated[
        int | None,
        typer.Option("--draft-min", min=0, help="Drop shorter drafts [default: 0, none]"),
    ] = None,
    draft_p_min: Annotated[
        float | None,
        _number(
            "--draft-p-min", low=0, high=1, help="Stop drafting below this confidence [default: 0]"
        ),
    ] = None,
    no_draft_adapt: Annotated[
        bool,
        typer.Option("--no-draft-adapt", help="Always draft --draft-tokens, however it pays"),
    ] = False,
    require_spec: Annotated[
        bool,
        typer.Option("--require-spec", help="Fail where speculation cannot be set up"),
    ] = False,
    quiet: shared.Quiet = False,
    as_json: shared.Json = False,
    yes: shared.Yes = False,
) -> None:
    """Ask a model; without a prompt, chat with it.

    The answer goes to stdout. Reasoning, the profile and everything else go to stderr. Turns are
    the file of `-i`, then each `-p`. Text piped in is the prompt, or follows the first turn after
    a blank line. A model that is not here is pulled first.
    """
    settings = shared.settings_of(
        ctx, compute=compute, runtime=runtime, nctx=nctx, ngl=ngl, threads=threads
    )
    output = Output(quiet=quiet)
    from geniex.cli import prompts
    from geniex.speculation_wish import read_wish

    wish = read_wish(
        spec_type,
        draft_model,
        draft_tokens=draft_tokens,
        draft_min=draft_min,
        draft_p_min=draft_p_min,
        draft_adapt=not no_draft_adapt,
        require_spec=require_spec,
    )
    if token_file is not None and (system_prompt is not None or think is not None):
        raise UsageError(
            "`--token-file` is a turn without a template",
            hint="leave out `--system-prompt`, `--think` and `--no-think`",
        )
    for text, flag in ((system_prompt, "-s"), (grammar_string, "--grammar-string")):
        prompts.check_text(text or "", flag)
    for text in stop or ():
        prompts.check_text(text, "--stop")
    turns = prompts.read_turns(prompt or (), input_file, token_file, output.note)
    if turns is None and as_json:
        raise UsageError("`--json` needs a prompt", hint="give `-p TEXT`, or pipe the prompt in")
    from geniex.session import AnswerOptions
    from geniex_runtimes.contract import SamplingOptions

    answering = AnswerOptions(
        sampling=SamplingOptions(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            seed=seed,
            grammar=_grammar(grammar_path, grammar_string, enable_json, output),
        ),
        max_tokens=None if max_tokens < 0 else max_tokens,
        stop=(*prompts.read_stops(stop_file), *(text for text in stop or () if text)),
        think=think,
    )
    from geniex.cli import loading
    from geniex.cli.conversation import Conversation
    from geniex.grammar import json_object

    name = settings.model if model is None else model
    with shared.named_by(model):
        resolved = loading.find_or_pull(name, settings, output, yes=yes or as_json, wish=wish)
    find_draft = loading.DraftFinder(settings, output, yes=yes, ask=not as_json)
    opened = loading.load(resolved, settings, output, wish, find_draft, hush=turns is None)
    try:
        if enable_json:
            sampling = json_object(answering.sampling, opened.loaded)
            answering = replace(answering, sampling=sampling)
        conversation = Conversation(
            opened, output, answering, system=system_prompt, live=not as_json
        )
        if turns is None:
            from geniex.cli.repl import Repl

            Repl(conversation, settings.data_dir).run()
        elif as_json:
            _report(conversation, turns)
        else:
            deque(_answers(conversation, turns), maxlen=0)
    finally:
        opened.close()


def _grammar(path: Path | None, text: str | None, enable_json: bool, output: Output) -> str | None:
    """The user's own grammar; that of `--enable-json` needs the model."""
    from geniex.cli.prompts import read_text

    if enable_json:
        if path is not None or text is not None:
            raise UsageError(
                "`--enable-json` is a grammar itself",
                hint="leave out `--grammar-path` and `--grammar-string`",
            )
        return None
    if path is not None and text is not None:
        output.warn("`--grammar-string` wins over `--grammar-path`")
    return text if text is not None or path is None else read_text(path)


def _answers(conversation: "Conversation", turns: "Turns") -> Iterator["Answer"]:
    if turns.tokens is not None:
        yield conversation.go_on(turns.tokens)
    for text in turns.texts:
        yield conversation.ask(text)


def _report(conversation: "Conversation", turns: "Turns") -> None:
    """Write the one object of `--json`: the last turn's answer, all turns, the plan.

    Where a turn fails, those before it are written, and the error is raised on.
    """
    from geniex.cli.profile import as_json

    opened = conversation.model
    answers: list[dict[str, Any]] = []
    failure: BaseException | None = None
    try:
        answers += (as_json(answer, opened) for answer in _answers(conversation, turns))
    except (GenieXError, KeyboardInterrupt) as exc:
        if not answers:
            raise
        failure = exc
    prompts = turns.texts or (None,)
    report = {
        "model": opened.resolved.name,
        **answers[-1],
        "turns": [
            {"prompt": text, **answer} for text, answer in zip(prompts, answers, strict=False)
        ],
        "plan": asdict(opened.plan),
        "context_length": opened.loaded.info.context_length,
        "warnings": list(opened.warnings),
        "error": (str(failure) or "interrupted") if failure is not None else None,
    }
    conversation.output.json(report)
    if failure is not None:
        raise failure

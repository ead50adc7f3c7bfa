"""`geniex infer`: ask a model, once or in a chat."""

from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from geniex.cli import asking, kept
from geniex.cli import options as shared
from geniex.cli.output import Output
from geniex_catalogue.errors import UsageError


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
    prompt: asking.Prompts = None,
    input_file: asking.InputFile = None,
    token_file: asking.TokenFile = None,
    system_prompt: asking.SystemPrompt = None,
    temperature: asking.Temperature = None,
    top_p: asking.TopP = None,
    top_k: asking.TopK = None,
    min_p: asking.MinP = None,
    repetition_penalty: asking.RepetitionPenalty = None,
    presence_penalty: asking.PresencePenalty = 0.0,
    frequency_penalty: asking.FrequencyPenalty = 0.0,
    seed: asking.Seed = None,
    grammar_path: asking.GrammarPath = None,
    grammar_string: asking.GrammarString = None,
    enable_json: asking.EnableJson = False,
    max_tokens: asking.MaxTokens = asking.DEFAULT_MAX_TOKENS,
    stop: asking.Stops = None,
    stop_file: asking.StopFile = None,
    think: asking.Think = None,
    compute: shared.Compute = None,
    runtime: shared.RuntimeName = None,
    nctx: shared.ContextLength = None,
    kv_type: shared.KvTypeOption = None,
    flash_attn: shared.FlashAttn = None,
    mlock: shared.Mlock = False,
    mmap: shared.Mmap = True,
    ngl: shared.GpuLayers = None,
    require: shared.Require = None,
    qairt_engine: shared.QairtEngine = None,
    sliding_window: shared.SlidingWindow = False,
    isolate: shared.Isolate = None,
    trust: shared.Trust = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads [default: free cores]")
    ] = None,
    spec_type: asking.SpecType = None,
    draft_model: asking.DraftModel = None,
    draft_tokens: asking.DraftTokens = None,
    draft_min: asking.DraftMin = None,
    draft_p_min: asking.DraftPMin = None,
    no_draft_adapt: Annotated[
        bool,
        typer.Option("--no-draft-adapt", help="Always draft --draft-tokens, however it pays"),
    ] = False,
    require_spec: asking.RequireSpec = False,
    save_session: kept.SaveSession = None,
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
        ctx,
        compute=compute,
        runtime=runtime,
        nctx=nctx,
        kv_type=kv_type,
        flash_attn=flash_attn,
        mlock=mlock,
        mmap=mmap,
        ngl=ngl,
        threads=threads,
        require=require,
        qairt_engine=qairt_engine,
        sliding_window=sliding_window,
        isolate=isolate,
        trust=trust,
    )
    output = Output(quiet=quiet)
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
    question = asking.Question(
        prompts=prompt,
        input_file=input_file,
        token_file=token_file,
        system_prompt=system_prompt,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        seed=seed,
        grammar_path=grammar_path,
        grammar_string=grammar_string,
        enable_json=enable_json,
        max_tokens=max_tokens,
        stops=stop,
        stop_file=stop_file,
        think=think,
    )
    if save_session is not None and token_file is not None:
        raise UsageError(
            "`--save-session` keeps a chat, and `--token-file` is a raw turn of none",
            hint="leave one of them out",
        )
    turns = question.turns(output, as_json=as_json)
    options = question.options(output)
    from geniex.cli import loading, talk
    from geniex.cli.conversation import Conversation

    name = settings.model if model is None else model
    with shared.named_by(model):
        resolved = loading.find_or_pull(name, settings, output, yes=yes or as_json, wish=wish)
    settings, wish = loading.tune(resolved, settings, wish, output)
    session = None
    if save_session is not None:
        from geniex.cli.chat_session import ChatSession

        session = ChatSession(save_session, output)
        settings = replace(settings, prefix_cache=session.cache)
    find_draft = loading.DraftFinder(settings, output, yes=yes, ask=not as_json)
    opened = loading.load(resolved, settings, output, wish, find_draft, hush=turns is None)
    of_bundles = {"--qairt-engine": qairt_engine is not None, "--sliding-window": sliding_window}
    for flag in (name for name, given in of_bundles.items() if given):
        if (runs_on := opened.loaded.info.runtime) != "qairt":
            output.warn(f"`{flag}` does nothing: `{opened.resolved.name}` runs on {runs_on}")
    conversation = None
    try:
        conversation = Conversation(opened, output, options, system=system_prompt, live=not as_json)
        facts: dict[str, Any] = {
            "plan": asdict(opened.plan),
            "context_length": opened.loaded.info.context_length,
            "warnings": list(opened.warnings),
        }
        if session is not None:
            facts["session"] = session.begin(conversation, opened.loaded.info)
        talk.hold(conversation, turns, settings.data_dir, facts if as_json else None)
    finally:
        with session.ending(conversation) if session is not None else nullcontext():
            opened.close()

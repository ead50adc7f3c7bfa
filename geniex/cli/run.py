"""`geniex run`: the chat of `geniex infer`, answered by a running server."""

from typing import Annotated, Any

import typer

from geniex.cli import asking, connecting
from geniex.cli import options as shared
from geniex.cli.output import Output, is_dumb


def run(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A model of the server: org/repo[:precision] or an alias "
            "[default: the configured model]",
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
    nctx: shared.ContextLength = None,
    kv_type: shared.KvTypeOption = None,
    ngl: shared.GpuLayers = None,
    require: shared.Require = None,
    spec_type: asking.SpecType = None,
    draft_model: asking.DraftModel = None,
    draft_tokens: asking.DraftTokens = None,
    draft_min: asking.DraftMin = None,
    draft_p_min: asking.DraftPMin = None,
    require_spec: asking.RequireSpec = False,
    host: connecting.Host = None,
    api_key: connecting.ApiKey = None,
    quiet: shared.Quiet = False,
    as_json: shared.Json = False,
) -> None:
    """Ask a model of a running `geniex serve`; without a prompt, chat with it.

    Everything is as for `geniex infer`, but the model is loaded and stays in the server, for all
    its clients. The server pulls nothing: what is not there has to be pulled first.
    """
    settings = shared.settings_of(
        ctx, host=host, compute=compute, nctx=nctx, ngl=ngl, require=require, kv_type=kv_type
    )
    output = Output(quiet=quiet)
    from geniex.client.model import RequestWish, ServedModel
    from geniex.speculation_wish import read_wish

    parsed = read_wish(
        spec_type,
        draft_model,
        draft_tokens=draft_tokens,
        draft_min=draft_min,
        draft_p_min=draft_p_min,
        require_spec=require_spec,
    )
    wish = RequestWish(
        nctx=nctx,
        kv_type=None if kv_type is None else settings.kv_type,
        ngl=ngl,
        compute=None if compute is None else settings.compute,
        require=None if require is None else settings.require,
        spec_type=spec_type,
        spec_draft_model=draft_model,
        spec_n_max=draft_tokens,
        spec_n_min=draft_min,
        spec_p_min=draft_p_min,
        require_spec=require_spec or None,
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
    turns = question.turns(output, as_json=as_json)
    options = question.options(output)
    from geniex.cli import talk, terminal
    from geniex.cli.conversation import Conversation

    with connecting.connect(settings, api_key) as server:
        if turns is None and not is_dumb():
            terminal.hush()
        with output.status("loading model..."):
            served = ServedModel(server, settings.model if model is None else model, wish, parsed)
        for warning in served.warnings:
            output.warn(warning)
        conversation = Conversation(served, output, options, system=system_prompt, live=not as_json)
        facts: dict[str, Any] = {
            "server": server.url,
            "context_length": served.facts.context_length,
            "warnings": list(served.warnings),
        }
        talk.hold(conversation, turns, settings.data_dir, facts if as_json else None)

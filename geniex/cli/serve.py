"""`geniex serve`: models for any OpenAI client."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.best import Best
from geniex.cli import access, kept, watching
from geniex.cli import options as shared
from geniex.cli.output import Output
from geniex.cli.stderr_writer import unblocked_stderr
from geniex.config import Settings
from geniex.keys import LOOPBACK, MOST_SLOTS, parse_hosts, parse_origins, parse_size
from geniex_catalogue.errors import UsageError

if TYPE_CHECKING:
    from geniex.address import Address
    from geniex.server.options import ServerOptions
    from geniex.server.residents import PoolOptions
    from geniex.server.watching import Watch

_SWITCH_INTERVAL = 0.0005  # seconds; a token of a small model takes a few milliseconds


def _per_request(value: Any) -> Any:
    if value is not None:
        raise UsageError(
            "speculation is set per request, not for the whole server",
            hint="send `spec_type`, `spec_draft_model` and `spec_n_max` in a request's body",
        )
    return value


def _not_here(name: str) -> Any:
    """A flag of `geniex infer` that is a field of requests here; it says so."""
    return typer.Option(name, hidden=True, callback=_per_request)


def serve(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A model to load at the start: org/repo[:precision], an alias, or a path",
            autocompletion=shared.complete_models,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Where to listen, host or host:port [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="0 is any free one [default: 18181]"),
    ] = None,
    api_key: access.ApiKey = None,
    api_key_file: access.ApiKeyFile = None,
    no_auth: access.NoAuth = False,
    origins: access.Origins = None,
    allowed_hosts: access.AllowedHosts = None,
    max_connections: access.MaxConnections = None,
    keepalive: Annotated[
        int | None,
        typer.Option(
            "--keepalive", min=-1, help="Seconds an idle model stays, -1 for ever [default: 300]"
        ),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            "--parallel",
            min=1,
            max=MOST_SLOTS,
            help="Answers of a model side by side [default: 4]",
        ),
    ] = None,
    max_queue: Annotated[
        int | None,
        typer.Option("--max-queue", min=0, help="Requests waiting for a model [default: 64]"),
    ] = None,
    memory_budget: Annotated[
        str | None,
        typer.Option(
            "--memory-budget",
            metavar="SIZE",
            help="What all models may take, such as 24G [default: what is free, less a reserve]",
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", metavar="MODEL", help="A model that always stays, repeatable"),
    ] = None,
    grammar_dir: Annotated[
        Path | None,
        typer.Option("--grammar-dir", help="The only folder that `grammar_path` may name files in"),
    ] = None,
    log_prompts: watching.LogPrompts = None,
    ssl_keyfile: Annotated[
        Path | None, typer.Option("--ssl-keyfile", help="The key of the certificate, PEM")
    ] = None,
    ssl_certfile: Annotated[
        Path | None, typer.Option("--ssl-certfile", help="A certificate, PEM: serve by TLS")
    ] = None,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds that answers get to end at the end")
    ] = 30.0,
    compute: shared.Compute = None,
    runtime: shared.RuntimeName = None,
    nctx: shared.ContextLength = None,
    kv_type: shared.KvTypeOption = None,
    flash_attn: shared.FlashAttn = None,
    mlock: shared.Mlock = False,
    mmap: Annotated[
        bool | None,
        typer.Option(
            "--mmap/--no-mmap",
            help="Map the weights, or read them, into huge pages [default: read small ones]",
        ),
    ] = None,
    ngl: shared.GpuLayers = None,
    require: shared.Require = None,
    qairt_engine: shared.QairtEngine = None,
    sliding_window: shared.SlidingWindow = False,
    isolate: shared.Isolate = None,
    cache_dir: kept.CacheDir = None,
    cache_size: kept.CacheSize = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads [default: free cores]")
    ] = None,
    spec_type: Annotated[str | None, _not_here("--spec-type")] = None,
    draft_model: Annotated[str | None, _not_here("--draft-model")] = None,
    draft_tokens: Annotated[str | None, _not_here("--draft-tokens")] = None,
    draft_min: Annotated[str | None, _not_here("--draft-min")] = None,
    draft_p_min: Annotated[str | None, _not_here("--draft-p-min")] = None,
    trust: shared.Trust = None,
) -> int:
    """Serve models to any OpenAI client, by default at http://127.0.0.1:18181.

    Models are loaded when a request names them. The page at `/` tries everything out. SIGTERM and
    Ctrl-C let running answers end; a second one ends at once.
    """
    flags = {
        **{"host": host, "origins": origins, "keepalive": keepalive, "parallel": parallel},
        **{"allowed_hosts": allowed_hosts},
        **{"isolate": isolate, "trust": trust},
        **{"max_queue": max_queue, "compute": compute, "runtime": runtime, "nctx": nctx},
        **{"ngl": ngl, "threads": threads, "require": require, "qairt_engine": qairt_engine},
        **{"sliding_window": sliding_window, "mlock": mlock, "mmap": mmap},
        **{"kv_type": kv_type, "flash_attn": flash_attn},
    }
    # before the log is set up: nobody who reads it slowly may stop the server
    ctx.with_resource(unblocked_stderr())
    kept_flags = {"cache_dir": cache_dir, "cache_size": cache_size}
    settings = shared.settings_of(ctx, default_log="warn", **flags, **kept_flags)
    settings = kept.with_cache(settings, sized=cache_size is not None)
    _check_cache_type(settings)
    address = _address(settings, port, tls=ssl_certfile is not None)
    if host is not None and port is not None:
        _check_port(host, port)
    if (ssl_keyfile is None) != (ssl_certfile is None):
        raise UsageError("TLS takes both `--ssl-certfile` and `--ssl-keyfile`")
    pins = tuple(pin or ())
    named = tuple(dict.fromkeys((*((model,) if model is not None else ()), *pins)))
    from geniex.server.options import MAX_CONNECTIONS, ServerOptions
    from geniex.server.residents import PoolOptions

    paths = _paths((*named, settings.model, *_drafts(settings)))
    who = access.read_access(api_key, api_key_file, address, no_auth=no_auth)
    options = ServerOptions(
        keys=who.keys,
        allowed_hosts=(address.host, *parse_hosts(settings.allowed_hosts or "").split(",")),
        origins=tuple(parse_origins(settings.origins or LOOPBACK).split(",")),
        max_connections=max_connections or MAX_CONNECTIONS,
        grammar_dir=_folder(grammar_dir),
        grace=grace,
        preload=_found(named, settings),
        paths=paths,
    )
    pool = PoolOptions(
        slots=settings.parallel,
        max_queue=settings.max_queue,
        keep_alive=None if settings.keepalive < 0 else float(settings.keepalive),
        memory_budget=None if memory_budget is None else parse_size(memory_budget),
        pinned=pins,
        paths=paths,
    )
    from geniex.server.watching import watched

    watch = ctx.with_resource(watched(log_prompts, settings.data_dir))
    return _run(settings, options, pool, address, who, (ssl_keyfile, ssl_certfile), watch)


def _run(
    settings: Settings,
    options: "ServerOptions",
    pool_options: "PoolOptions",
    address: "Address",
    who: access.Access,
    tls: tuple[Path | None, Path | None],
    watch: "Watch",
) -> int:
    from geniex.server import lifecycle
    from geniex.server.app import build_app
    from geniex.server.listening import listen_at
    from geniex.server.pool import Pool
    from geniex.server.state import ServerState
    from geniex_runtimes.llama_cpp import heap

    output = Output()
    # not when a model comes first: the clients who wait for it have threads already
    heap.share()
    # an engine that has a decode's result waits this long at most for the interpreter
    sys.setswitchinterval(_SWITCH_INTERVAL)
    sockets, address = listen_at(address)
    pool = Pool(settings, pool_options)
    state = ServerState(settings, options, pool, tracing=watch.tracing, prompts=watch.prompts)

    def listening() -> None:
        output.tell(f"Listening on {address.url}")
        for text in watch.notes:
            output.tell(text)
        for text in who.warnings:
            output.warn(text)
        for text in who.notes:
            output.tell(text)
        if settings.prefix_cache is not None:
            output.tell(kept.told(settings.prefix_cache))
        if settings.best:
            known = ", ".join(_known(best, settings) for best in settings.best)
            output.tell(f"Best settings of `geniex bench` are used: {known}")

    def draining(active: int) -> None:
        running = "1 answer still runs" if active == 1 else f"{active} answers still run"
        output.tell(f"Ending: {running}, for {options.grace:g} s at most; again ends at once")

    app = build_app(state)
    try:
        return lifecycle.serve(
            app, state, sockets, listening, draining, output.tell, keyfile=tls[0], certfile=tls[1]
        )
    finally:
        # for what did not begin; after an orderly end both are closed
        state.pool.close()
        for one in sockets:
            one.close()


def _known(best: Best, settings: Settings) -> str:
    from geniex.tuned import has_draft

    draft = best.draft_model
    lost = draft is not None and not has_draft(settings)(draft)
    return f"{best.model} ({best.text()}{f'; the draft `{draft}` is not here' if lost else ''})"


def _address(settings: Settings, port: int | None, *, tls: bool) -> "Address":
    from geniex.address import Address, parse_address

    address = parse_address(settings.host) if settings.host else Address()
    if address.scheme == "https" and not tls:
        raise UsageError(
            f"`{settings.host}` is to be served by TLS, which needs a certificate",
            hint="give `--ssl-certfile` and `--ssl-keyfile`",
        )
    address = replace(address, scheme="https" if tls else "http")
    return address if port is None else replace(address, port=port)


def _check_cache_type(settings: Settings) -> None:
    """Raise UsageError for what no load of this server could be."""
    from geniex_runtimes import kv_cache

    if settings.kv_type is not None:
        kv_cache.check(settings.kv_type, settings.flash_attn, None)


def _check_port(host: str, port: int) -> None:
    from geniex.address import parse_address

    named = parse_address(host, port).port
    if named != port:
        raise UsageError(
            f"`--host {host}` names port {named}, and `--port` names {port}",
            hint="leave one of them out",
        )


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise UsageError(f"`{path}` is not a folder", hint="`--grammar-dir` takes a folder")
    return path


def _found(named: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The names as they are. Raises the catalogue's errors for a model that is not here."""
    from geniex.session import find_local_model

    for name in named:
        find_local_model(name, settings)
    return named


def _drafts(settings: Settings) -> tuple[str, ...]:
    """The drafts of the models' best settings."""
    return tuple(best.draft_model for best in settings.best if best.draft_model is not None)


def _paths(named: tuple[str, ...]) -> frozenset[str]:
    from geniex_catalogue import names

    return frozenset(name for name in named if names.local_path(name) is not None)

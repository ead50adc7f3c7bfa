"""Flags that several commands share, the global ones among them, and shell completion."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from geniex.config import Settings, read_settings
from geniex.config_file import find_data_dir
from geniex_catalogue.errors import (
    ModelNotFoundError,
    ModelRefError,
    PrecisionNotFoundError,
    UsageError,
)

_FLAGS = "geniex.flags"
# what other programs call our commands
_ELSEWHERE = {
    **dict.fromkeys(("chat", "ask", "generate", "complete"), "infer"),
    **dict.fromkeys(("show", "inspect"), "info"),
    **dict.fromkeys(("download", "import", "get"), "pull"),
    **dict.fromkeys(("delete", "uninstall"), "remove"),
    "models": "list",
}
# flags whose value may be left out: the next word is it, unless that is a flag too
_OPTIONAL_VALUE = frozenset({"--report"})
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def settings_of(ctx: typer.Context, *, default_log: str = "none", **flags: Any) -> Settings:
    """The settings of this run: global flags, the command's own, variables and the file.

    `default_log` is the level of the log where nobody chose one.
    """
    given = {**ctx.meta.get(_FLAGS, {}), **flags}
    chosen = given.get("log") is not None or bool(os.environ.get("GENIEX_LOG"))
    settings = read_settings(given if chosen else {**given, "log": default_log}, os.environ)
    from geniex.cli import log

    log.set_up(settings.log, native=chosen, kind=settings.log_format)
    return settings


@contextmanager
def named_by(model: str | None) -> Iterator[None]:
    """Say, in errors about a model's name that was not typed, where it comes from."""
    try:
        yield
    except (ModelRefError, ModelNotFoundError, PrecisionNotFoundError) as exc:
        if model is None:
            exc.message = f"the configured model: {exc.message}"
            exc.hint = exc.hint or "`geniex config set model NAME` changes it, GENIEX_MODEL too"
        raise


def data_dir_of(ctx: typer.Context) -> Path:
    """The data folder of this run, without a look at the file of settings in it."""
    return find_data_dir(ctx.meta.get(_FLAGS, {}).get("data_dir"), os.environ)


def is_offline(ctx: typer.Context) -> bool:
    """Whether `--offline` was given."""
    return bool(ctx.meta.get(_FLAGS, {}).get("offline"))


def complete_models(incomplete: str) -> list[str]:
    """Names of the models in the store and of the built-in ones, for the shell."""
    from geniex_catalogue.entries import catalogue
    from geniex_catalogue.store import Store

    settings = read_settings({}, os.environ)
    names = {model.name for model in Store(settings.data_dir).list()}
    names |= {entry.name for entry in catalogue().entries if entry.builtin}
    return sorted(name for name in names if name.startswith(incomplete))


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="org/repo[:precision], an alias, or the path of a model",
        autocompletion=complete_models,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON value on stdout")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No notes, no progress, no profile")]
Compute = Annotated[
    str | None,
    typer.Option("-c", "--compute", help="cpu, gpu, npu, hybrid or device names [default: best]"),
]
RuntimeName = Annotated[
    str | None, typer.Option("--runtime", help="llama_cpp or qairt [default: by format]")
]
Require = Annotated[
    str | None,
    typer.Option("--require", help="npu, gpu or cpu: fail where the model would run elsewhere"),
]
QairtEngine = Annotated[
    str | None,
    typer.Option("--qairt-engine", help="What runs a bundle: genie or ort [default: genie]"),
]
SlidingWindow = Annotated[
    bool,
    typer.Option(
        "--sliding-window", help="Of bundles: go on past the context, without the oldest tokens"
    ),
]
Isolate = Annotated[
    bool | None,
    typer.Option(
        "--isolate/--no-isolate",
        help="GGUF models in a process of their own, which may crash alone [default: no]",
    ),
]
Trust = Annotated[
    bool | None,
    typer.Option(
        "--trust/--no-trust",
        help="Do not try a file that is new here out in another process first [default: no]",
    ),
]
ContextLength = Annotated[
    int | None, typer.Option("--nctx", min=1, help="Context length in tokens [default: what fits]")
]
KvTypeOption = Annotated[
    str | None,
    typer.Option("--kv-type", help="Of the KV cache: f16, q8_0, q4_0 ... [default: f16]"),
]
FlashAttn = Annotated[
    str | None,
    typer.Option("--flash-attn", help="Flash attention: auto, on or off [default: auto]"),
]
Mlock = Annotated[
    bool, typer.Option("--mlock", help="Keep the weights in memory, never swapped out")
]
Mmap = Annotated[
    bool,
    typer.Option("--mmap/--no-mmap", help="Map the weights, or read them, into huge pages"),
]
GpuLayers = Annotated[
    int | None, typer.Option("-n", "--ngl", min=-1, help="Layers on the device, -1 for all")
]


def _remember(ctx: typer.Context, param: Any, value: Any) -> None:
    if value not in (None, False):
        ctx.meta.setdefault(_FLAGS, {})[param.name] = value


def _global_flags() -> list[TyperOption]:
    """The flags every command takes, before its name or after it."""
    return [
        TyperOption(
            param_decls=["--data-dir"],
            metavar="DIR",
            help="Where models and settings are kept [default: ~/.cache/geniex]",
            expose_value=False,
            callback=_remember,
        ),
        TyperOption(
            param_decls=["--log"],
            metavar="LEVEL",
            help="none, error, warn, info, debug or trace, to stderr [default: none, serve: warn]",
            expose_value=False,
            callback=_remember,
        ),
        TyperOption(
            param_decls=["--log-format"],
            metavar="FORMAT",
            help="text, or json: an object a line for all that goes to stderr [default: text]",
            expose_value=False,
            callback=_remember,
        ),
        TyperOption(
            param_decls=["--offline"],
            is_flag=True,
            default=False,
            help="Use no network: what is not here is an error",
            expose_value=False,
            callback=_remember,
        ),
        TyperOption(
            param_decls=["--verbose"],
            is_flag=True,
            default=False,
            help="Tell more",
            expose_value=False,
            callback=_remember,
        ),
    ]


class Command(TyperCommand):
    """A command that takes the global flags too, and `--flag=false` for its switches."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_global_flags())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, after `--think=false` was turned into `--no-think`.

        Raises UsageError for a path that is empty, as `--cache-dir "$UNSET"`: it is no `.` folder.
        """
        try:
            rest = super().parse_args(ctx, self._plain_switches(args))
        except typer.TyperException as exc:
            # a few of typer's errors do not say which command they are of
            if getattr(exc, "ctx", None) is None:
                exc.__dict__["ctx"] = ctx
            raise
        for param in self.params:
            if param.type.name == "path" and ctx.params.get(param.name) == "":
                raise UsageError(
                    f"`{param.opts[-1]}` is empty", hint="give it a path, or leave it out"
                )
        return rest

    def _plain_switches(self, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, TyperOption)]
        switches = {o.opts[0]: o.secondary_opts[0] for o in options if o.secondary_opts}
        takes_value = {name for o in options if not o.is_flag for name in o.opts}
        plain: list[str] = []
        for index, arg in enumerate(args):
            if arg == "--":
                return plain + args[index:]
            match = re.fullmatch(r"(--[\w-]+)=(\w+)", arg)
            is_value = index > 0 and args[index - 1] in takes_value
            if match and match[1] in switches and match[2].lower() in _TRUTH and not is_value:
                arg = match[1] if _TRUTH[match[2].lower()] else switches[match[1]]
            plain.append(arg)
            following = args[index + 1] if index + 1 < len(args) else "--"
            if arg in _OPTIONAL_VALUE and following.startswith("-") and following != "-":
                plain.append("")
        return plain


class Group(TyperGroup):
    """The root: the global flags stand before a command's name here."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raises UsageError for a name that other programs have for it."""
        ours = _ELSEWHERE.get(args[0]) if ctx.parent is None else None
        if ours is not None:
            raise UsageError(f"No such command '{args[0]}'", hint=f"it is `geniex {ours}` here")
        return super().resolve_command(ctx, args)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_global_flags())

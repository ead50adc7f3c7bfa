"""The console command: registers the commands, and turns what they raise into exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from geniex.cli import (
    bench,
    clean,
    completion,
    config,
    devices,
    doctor,
    hub,
    infer,
    info,
    json_stderr,
    ps,
    pull,
    remove,
    serve,
    terminal,
    update,
    verify,
    version,
)
from geniex.cli import list as list_models
from geniex.cli import run as run_command
from geniex.cli.errors import BROKEN_PIPE, FAILED, INTERRUPTED, tell
from geniex.cli.options import Command, Group
from geniex.cli.output import Output, OutputClosedError, discard, prepare_streams
from geniex_catalogue.errors import UsageError

app = typer.Typer(
    cls=Group,
    help="Type a model's name, and it runs on the machine in front of you.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,  # ours takes the shell's name
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(value: bool) -> None:
    if value:
        version.show(Output())
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "-v", "--version", callback=_show_version, is_eager=True, help="Show versions"
        ),
    ] = False,
    show_completion: completion.ShowCompletion = None,
    install_completion: completion.InstallCompletion = None,
) -> None:
    """Show the help where no command is given."""
    if ctx.invoked_subcommand is None:
        Output().data(ctx.get_help())


app.command("pull", cls=Command)(pull.pull)
app.command("infer", cls=Command)(infer.infer)
app.command("serve", cls=Command)(serve.serve)
app.command("run", cls=Command)(run_command.run)
app.command("ps", cls=Command)(ps.ps)
app.command("list", cls=Command)(list_models.list_models)
app.command("ls", cls=Command, hidden=True)(list_models.list_models)
app.command("info", cls=Command)(info.info)
app.command("remove", cls=Command)(remove.remove)
app.command("rm", cls=Command, hidden=True)(remove.remove)
app.command("clean", cls=Command)(clean.clean)
app.command("verify", cls=Command)(verify.verify)
app.command("update", cls=Command)(update.update)
app.command("devices", cls=Command)(devices.devices)
app.command("doctor", cls=Command)(doctor.doctor)
app.command("bench", cls=Command)(bench.bench)
app.add_typer(hub.app, name="hub")
app.add_typer(config.app, name="config")
app.command("version", cls=Command)(version.version)


def run(args: Sequence[str]) -> int:
    """Run one command line; the answer is the exit code. What is raised is told and ends here."""
    prepare_streams()
    completion.prepare()
    with json_stderr.where_wished(os.environ), terminal.guarded():
        try:
            # a list of its own, so that Windows does not expand `*` in prompts
            code = typer.main.get_command(app).main(list(args), "geniex", standalone_mode=False)
            return code if isinstance(code, int) else 0
        except KeyboardInterrupt:
            return INTERRUPTED
        except (OutputClosedError, BrokenPipeError):
            return BROKEN_PIPE
        except SystemExit as exc:
            return _code_of(exc)
        except typer.Abort as exc:
            Output().tell("Aborted")
            return INTERRUPTED if isinstance(exc.__context__, KeyboardInterrupt) else FAILED
        except typer.TyperException as exc:
            return tell(_as_usage_error(exc))
        except Exception as exc:  # the edge: nothing leaves with a traceback
            return tell(exc)


def main() -> None:
    """The console script. Raises SystemExit, or ends at once where a native call still runs."""
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        discard(sys.stdout)
        code = code or BROKEN_PIPE
    if terminal.left_running():
        os._exit(code)
    sys.exit(code)


def _code_of(exc: SystemExit) -> int:
    if isinstance(exc.__context__, BrokenPipeError):
        return BROKEN_PIPE
    return exc.code if isinstance(exc.code, int) else 0


def _as_usage_error(exc: typer.TyperException) -> UsageError:
    context = getattr(exc, "ctx", None)
    command = context.command_path if context is not None else "geniex"
    return UsageError(exc.format_message().rstrip("."), hint=f"`{command} -h` shows what it takes")

"""The command line: which commands there are, how they are grouped, and what each way to fail looks like.

Command modules import nothing heavy at their top, so that `foible --help` answers at once.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from foible.cli import (
    boundary,
    compare,
    data,
    distort,
    doctor,
    explain,
    fool,
    gate,
    generator,
    hunt,
    labels,
    rank,
    reject,
    runs,
    study,
    train,
)
from foible.cli import run as own
from foible.cli import studio as studio_commands
from foible.cli.inspect import commands as inspect
from foible.errors import FoibleError, Interrupted, Untrusted, UserError
from foible.memory import keep
from foible.processes import is_ours

ABOUT = """Find the weak parts of image classifiers: inputs that a network should get right and does not.

Our words, and the field's:

[bold]basket[/bold]     several classifiers of one task (an ensemble of classifiers)
[bold]suspect[/bold]    the network that is searched (model under test)
[bold]peers[/bold]      the rest of the basket (reference models)
[bold]hunt[/bold]       the search for the suspect's mistakes (differential testing)
[bold]distort[/bold]    the smallest change that changes an answer (minimal adversarial perturbation)
[bold]compare[/bold]    two versions on the same images: broken and fixed (negative flips)
[bold]rank[/bold]       unlabelled images, the clearest dissent first (query by committee)
[bold]explain[/bold]    what would have mended a mistake (counterfactual explanation)
[bold]fool[/bold]       images from nothing that a network is sure of (fooling images)
[bold]boundary[/bold]   images between two classes, for networks and people (latent interpolation)
[bold]suite[/bold]      findings and flips frozen to test versions to come (regression tests)
[bold]gate[/bold]       pass, fail or inconclusive, for CI
[bold]reject[/bold]     a rule that refuses strange images (out-of-distribution detection)
[bold]space[/bold]      what may be done to an image (perturbation model, threat model)
[bold]objective[/bold]  what counts as a mistake (attack criterion)
[bold]finding[/bold]    one mistake (failure case, natural adversarial example)
[bold]run[/bold]        one hunt's findings on disk (experiment)
[bold]mend[/bold]       train networks (augmentation, adversarial training)
"""

EPILOG = """First steps: [bold]foible demo[/bold]. What this machine has: [bold]foible doctor[/bold].

Exit codes: 0 done, 1 a gate failed, 2 wrong input, 3 interrupted, 4 an error of ours.
"""

RESUMABLE = ("run", "gate", "demo", "train", "generator", "study")  # besides the recipes: what they finished is kept

BROKEN_PIPE = 141  # what a shell reports for any program whose reader went away


class _Group(TyperGroup):
    """Hands Ctrl-C to `main` as our own error; typer would turn it into an exit code by itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        hunt.refuse_pool(args)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Interrupted from stop


app = typer.Typer(
    name="foible", help=ABOUT, epilog=EPILOG, cls=_Group, no_args_is_help=True, add_completion=False,
    rich_markup_mode="rich", pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        from foible import __version__

        print(f"foible {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


app.command(rich_help_panel="Find")(hunt.hunt)
app.command(rich_help_panel="Find")(compare.compare)
app.command(rich_help_panel="Find")(distort.distort)
app.command(rich_help_panel="Find")(rank.rank)
app.command(rich_help_panel="Find")(explain.explain)
app.command(rich_help_panel="Find")(fool.fool)
app.add_typer(boundary.app, name="boundary", rich_help_panel="Find")
app.command(rich_help_panel="Find")(hunt.demo)
app.command(rich_help_panel="Find")(own.run)
app.command(rich_help_panel="Guard")(gate.suite)
app.command(rich_help_panel="Guard")(gate.gate)
app.add_typer(reject.app, name="reject", rich_help_panel="Guard")
app.command(rich_help_panel="Look")(runs.show)
app.command(rich_help_panel="Look")(runs.report)
app.command(rich_help_panel="Look")(studio_commands.studio)
app.add_typer(inspect.app, name="inspect", rich_help_panel="Look")
app.command(rich_help_panel="Look")(doctor.doctor)
app.add_typer(data.app, name="data", rich_help_panel="Look")
app.command(rich_help_panel="Label")(studio_commands.label)
app.command(rich_help_panel="Label")(runs.export)
app.command("import", rich_help_panel="Label")(labels.import_)
app.command(rich_help_panel="Mend")(train.train)
app.add_typer(generator.app, name="generator", rich_help_panel="Mend")
app.command(rich_help_panel="Reproduce", cls=study.StudyCommand, context_settings=study.OWN_FLAGS)(study.study)
app.command(rich_help_panel="Reproduce")(runs.replay)
app.command(rich_help_panel="Reproduce")(runs.cite)


def _how_to_go_on(args: Sequence[str], told: str = "") -> str:
    """told: what is there, where a run knows it."""
    from foible.runs.recipe import RECIPES

    if args and args[0] in (*RECIPES, *RESUMABLE) and "the same command" not in told:
        told = told or "stopped: what was finished is on disk"
        return f"{told}; the same command goes on:\n  foible {shlex.join(args)}"
    return told or "stopped. The same command starts again."


def _with_trust(error: FoibleError, args: Sequence[str]) -> str:
    """The whole command, where it is refused for want of --trust and has that option."""
    command: Any = get_command(app)
    for word in args:
        command = getattr(command, "commands", {}).get(word, command)
    if not isinstance(error, Untrusted) or not any("--trust" in one.opts for one in command.params):
        return ""
    return f":\n  foible {shlex.join(args)} --trust"


def _say(message: str) -> None:
    """To standard error, with control characters shown: a file's or a class's name may hold any."""
    plain = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in message)
    with contextlib.suppress(OSError):
        print(f"foible: {plain}", file=sys.stderr, flush=True)


def _reader_went_away(error: BaseException | None) -> bool:
    """Whether a closed pipe is behind `error`: rich turns one into SystemExit."""
    while error is not None:
        if isinstance(error, BrokenPipeError):
            return True
        error = error.__context__
    return False


def _close_quietly() -> int:
    """Point standard output at nothing, so that Python's last flush does not complain too."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what went wrong is said on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that cannot show a character shows another one
            stream.reconfigure(errors="backslashreplace")
    debug = bool(os.environ.get("FOIBLE_DEBUG"))
    try:
        try:
            get_command(app).main(args=args, prog_name="foible")
        finally:
            sys.stdout.flush()
    except SystemExit as stop:
        if _reader_went_away(stop):
            return _close_quietly()
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        _say(str(stop.code))
        return FoibleError.exit_code
    except BrokenPipeError:
        return _close_quietly()
    except (KeyboardInterrupt, Interrupted) as stop:
        if debug:
            traceback.print_exc()
        _say(_how_to_go_on(sys.argv[1:] if args is None else args, str(stop)))
        return Interrupted.exit_code
    except FoibleError as error:
        if debug:
            traceback.print_exc()
        _say(f"{error}{_with_trust(error, sys.argv[1:] if args is None else args)}")
        return error.exit_code
    except Exception as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # a spec, looked for as a file
            _say(f"the name {str(error.filename)[:100]!r}… is longer than that of any file: give a shorter one")
            return UserError.exit_code
        line = traceback.format_exception_only(error)[-1].strip()
        hint = "" if debug else " Set FOIBLE_DEBUG=1 for the traceback, and please send it with a report."
        _say(f"an error that we did not foresee: {line}. What was finished before is kept.{hint}")
        return FoibleError.exit_code
    return 0


def main() -> None:
    """The `foible` program."""
    keep()
    is_ours()
    os.environ["PYTHONSAFEPATH"] = "1"  # no process that we start looks for modules in the working folder
    for name in ("SIGTERM", "SIGHUP"):  # as Ctrl-C; who started us with `nohup` wants the second one unheard
        which = getattr(signal, name, None)
        if which is not None and signal.getsignal(which) == signal.SIG_DFL:
            signal.signal(which, signal.default_int_handler)
    code = run()
    if code == Interrupted.exit_code and threading.active_count() > 1:
        import multiprocessing.util

        for process in multiprocessing.active_children():
            process.kill()
        # Semaphores: Python would complain of them after our last word.
        multiprocessing.util._run_finalizers(0)  # type: ignore[attr-defined]
        _leave(code)  # without waiting for threads: a network that hangs in one would need a second Ctrl-C
    if "torch" in sys.modules and sys.getprofile() is None and sys.gettrace() is None:
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End at once. To take an interpreter apart that has torch in it takes half a second, on a GPU a whole one."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)

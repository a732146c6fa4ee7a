"""The program's shell: help in groups, and one exit code and one message for each way to fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
import typer
from small_tasks import HEARING
from typer.main import get_command

import foible
from foible import cli
from foible.errors import FoibleError, Interrupted, UserError

PANELS = {
    "Find": {"hunt", "compare", "rank", "demo", "distort", "explain", "fool", "boundary", "run"},
    "Guard": {"suite", "gate", "reject"},
    "Look": {"show", "report", "studio", "inspect", "data", "doctor"},
    "Label": {"label", "export", "import"},
    "Mend": {"train", "generator"},
    "Reproduce": {"study", "replay", "cite"},
}


def program(*args: str, code: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a user would; `code` first changes it."""
    script = (
        f"{HEARING}\nimport sys\nfrom foible import cli\n{code}\nsys.argv = ['foible', *sys.argv[1:]]\ncli.main()\n"
    )
    settings = {key: value for key, value in os.environ.items() if key != "FOIBLE_DEBUG"} | {"COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        env=settings | environment,
        check=False,
    )


def test_help_is_in_groups_in_order() -> None:
    text = program("--help").stdout
    found = [(name, text.index(f" {name} ─")) for name in PANELS]
    assert [place for _, place in found] == sorted(place for _, place in found)
    ends = [place for _, place in found[1:]] + [len(text)]
    for (panel, start), end in zip(found, ends, strict=True):
        listed = set(re.findall(r"^│ ([a-z]+) ", text[start:end], re.MULTILINE))
        assert listed == PANELS[panel]


@pytest.mark.parametrize("word", ["ensemble", "model under test", "natural adversarial example", "perturbation"])
def test_help_uses_the_fields_words_too(word: str) -> None:
    assert word in re.sub(r"\s+", " ", program("--help").stdout)


def test_every_command_is_in_a_group_and_says_what_it_does() -> None:
    commands: dict[str, Any] = get_command(cli.app).commands  # type: ignore[attr-defined]
    assert set(commands) == set().union(*PANELS.values())
    for name, command in commands.items():
        assert command.help, name
        for part in (command, *getattr(command, "commands", {}).values()):
            undocumented = [p.name for p in part.params if not getattr(p, "help", None)]
            assert undocumented == [], f"{part.name}: no help for {undocumented}"


def test_no_help_text_is_swallowed_as_markup() -> None:
    """Help is rich markup: `[auto|cpu]` would vanish, `\\[auto|cpu]` is shown."""
    commands: dict[str, Any] = get_command(cli.app).commands  # type: ignore[attr-defined]
    groups = tuple(commands[name] for name in ("data", "inspect", "generator", "reject", "boundary"))
    for command in (*commands.values(), *(part for group in groups for part in group.commands.values())):
        texts = [command.help, *(getattr(parameter, "help", "") for parameter in command.params)]
        for text in texts:
            tags = re.findall(r"(?<!\\)\[/?([a-z#/@][^\]]*)\]", text or "")
            assert set(tags) <= {"bold", "italic", "dim"}, f"{command.name}: {text}"


def test_every_command_has_json() -> None:
    commands: dict[str, Any] = get_command(cli.app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        groups = ("inspect", "generator", "reject", "boundary")
        parts = [command] if name not in groups else list(command.commands.values())
        for part in parts:
            assert any("--json" in parameter.opts for parameter in part.params), f"{name} {part.name}"


def test_each_command_answers_help() -> None:
    for name in set().union(*PANELS.values()):
        assert cli.run([name, "--help"]) == 0


def test_the_command_line_starts_without_torch() -> None:
    heavy = "('torch', 'numpy', 'pyarrow')"
    script = f"import sys, foible.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version() -> None:
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"foible {foible.__version__}\n")


@pytest.mark.parametrize(
    "args",
    [["no-such-command"], ["doctor", "--no-such-option"], ["doctor", "extra"], ["hunt", "--trials", "many"]],
)
def test_wrong_usage_is_exit_2_on_standard_error(args: list[str]) -> None:
    done = program(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: foible" in done.stderr


def test_a_misspelt_command_gets_a_suggestion() -> None:
    assert "'doctor'" in program("docter").stderr


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `foible doctor` fail with `error`."""

    def fail() -> None:
        raise error

    monkeypatch.setattr("foible.cli.doctor.examine", fail)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("given 'x', expected 'y': write y"), 2, "foible: given 'x', expected 'y': write y\n"),
        (Interrupted("resume with: foible hunt"), 3, "foible: resume with: foible hunt\n"),
        (FoibleError("the disk is full"), 4, "foible: the disk is full\n"),
        (typer.Exit(1), 1, ""),
        (SystemExit(), 0, ""),
        (SystemExit("a library gave up"), 4, "foible: a library gave up\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("args", [["doctor"], ["doctor", "--json"]])
def test_each_error_has_its_exit_code_and_one_message(
    error: BaseException,
    code: int,
    said: str,
    args: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("FOIBLE_DEBUG", raising=False)
    failing(error, monkeypatch)
    assert cli.run(args) == code
    assert capsys.readouterr() == ("", said)


def test_an_unforeseen_error_is_exit_4_and_one_paragraph(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FOIBLE_DEBUG", raising=False)
    failing(ZeroDivisionError("division by zero"), monkeypatch)
    assert cli.run(["doctor"]) == 4
    said = capsys.readouterr().err
    assert said.startswith("foible: ")
    assert said.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in said
    assert "FOIBLE_DEBUG=1" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), UserError("x"), FoibleError("x"), Interrupted("x")])
def test_debug_shows_the_traceback(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOIBLE_DEBUG", "1")
    failing(error, monkeypatch)
    cli.run(["doctor"])
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_exit_3_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(KeyboardInterrupt(), monkeypatch)
    assert cli.run(["doctor"]) == 3
    assert "starts again" in capsys.readouterr().err
    assert cli._how_to_go_on(["hunt", "--out", "my run"]).endswith("foible hunt --out 'my run'")


def test_a_real_ctrl_c_is_exit_3_too() -> None:
    code = """
import foible.cli.doctor as doctor, os, signal
doctor.examine = lambda: os.kill(os.getpid(), signal.SIGINT)
"""
    if sys.platform == "win32":
        pytest.skip("Windows sends Ctrl-C to whole groups of processes")
    assert signal.getsignal(signal.SIGINT) is not None
    done = program("doctor", code=code)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="its semaphores have no names")
def test_nothing_is_said_after_our_last_word() -> None:
    """Stopped while a thread is still at work, the program leaves at once: Python would call its semaphores leaked."""
    script = """
import multiprocessing, threading, time
from foible import cli
kept = multiprocessing.get_context("spawn").Queue()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
cli.run = lambda: 3
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("how", ["print('x' * 60)", "__import__('rich').print('x' * 60)"])
def test_a_closed_pipe_is_quiet(how: str) -> None:
    code = f"import foible.cli.doctor as doctor\ndoctor.examine = lambda: [{how} for _ in range(3000)]"
    script = f"import sys\nfrom foible import cli\n{code}\nsys.argv = ['foible', 'doctor']\ncli.main()\n"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == cli.BROKEN_PIPE


def test_control_characters_in_a_message_are_shown_not_obeyed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(UserError("a file called \x1b[2J\x07"), monkeypatch)
    assert cli.run(["doctor"]) == 2
    assert capsys.readouterr().err == "foible: a file called \\x1b[2J\\x07\n"


def test_output_survives_a_console_that_knows_only_ascii() -> None:
    done = program("--help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "hunt" in done.stdout


def test_errors_leave_json_output_empty() -> None:
    code = "import foible.cli.doctor as doctor\ndef fail():\n    raise ValueError('no')\ndoctor.examine = fail"
    done = program("doctor", "--json", code=code)
    assert (done.returncode, done.stdout) == (4, "")
    with pytest.raises(json.JSONDecodeError):
        json.loads(done.stdout)

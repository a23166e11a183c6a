"""The frame of all commands: one line for an error, a fixed exit code, the nearest name for a mistyped one."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from glocalfair.errors import GlocalfairError, unknown
from glocalfair.stopping import handling

FAILED = 2
INTERRUPTED = 130


class UnexpectedError(click.ClickException):
    """A mistake of the program and not of its user."""

    exit_code = 70
    """As ``EX_SOFTWARE`` of sysexits.h."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"Unexpected {type(error).__name__}: {str(error)[:300]}. This is a bug in glocalfair: please report it, "
            "with the output of 'glocalfair --debug …'."
        )


class Group(click.Group):
    """A click group that ends every foreseeable mistake with ``Error: …`` on stderr and exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as a program; with ``standalone_mode=False`` let every exception through."""
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show "λ" or "±" shows "?": better than a crash after the training.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        try:
            # What ends a process politely is Ctrl-C to us.
            with handling(signal.default_int_handler, signal.SIGTERM):
                code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            _fail(_one_line(error), error.exit_code if isinstance(error, UnexpectedError) else FAILED)
        except click.Abort as error:
            # click makes an Abort of Ctrl-C; what there is to say about it has come as its message.
            _fail(str(error) or "Interrupted.", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what a user or the disk can get wrong becomes a message."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (GlocalfairError, OSError) as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise click.ClickException(_message(error)) from error
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            # Not foreseen, so it is our mistake; the user still gets one line.
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise UnexpectedError(error) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(str(unknown("command", args[0], self.list_commands(ctx))), ctx)
        return super().resolve_command(ctx, args)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: '{error.filename}'." if error.filename else f"{error.strerror}."
    return str(error)


def _one_line(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    return f"{text} See '{context.command_path} --help'." if context else text


def _fail(message: str, code: int = FAILED) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)

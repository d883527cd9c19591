"""The command line: ``rqmail``, one module a noun, each loaded when it is called for."""

from __future__ import annotations

import gc
import json
import sys
from importlib import import_module
from typing import Any, NamedTuple

import click

from rqmail import __version__
from rqmail.cli.errors import explained


class Place(NamedTuple):
    """Where a command lives, what it does in a few words, and the extra that has to be installed for it."""

    module: str
    function: str
    help: str
    extra: str = ""


COMMANDS = {
    "run": Place("run", "run", "Run the whole system on this machine, with a sample campaign.", "local"),
    "init": Place("operation", "init", "Create or update the tables and register the ticks."),
    "send": Place("intake", "send", "Hand in one message and print its id."),
    "import": Place("importing", "import_", "Hand in a file of messages; list imports, undo one."),
    "status": Place("status", "status", "Show messages, mailboxes, budgets, estimates, problems."),
    "top": Place("status", "top", "Watch it live."),
    "explain": Place("status", "explain", "Say why mail of a sender goes out or does not."),
    "forecast": Place("forecast", "forecast", "Say when the mail will have left, and what if."),
    "campaign": Place("campaign", "campaign", "One text for many people, each once.", "campaigns"),
    "mailbox": Place("mailbox", "mailbox", "System mailboxes and their limits."),
    "tenant": Place("tenant", "tenant", "Tenants and their mail settings."),
    "token": Place("token", "token", "Tokens for the API and the pages."),
    "message": Place("message", "message", "Messages: show, list, cancel, requeue, resolve."),
    "suppression": Place("suppression", "suppression", "Addresses that get no mail: add, remove, list, import."),
    "webhook": Place("webhook", "webhook", "Programs that are told of what happens to mail."),
    "dispatch": Place("operation", "dispatch", "Do one pass: hand what can be sent now to the workers."),
    "worker": Place("processes", "worker", "Send mail until told to stop."),
    "scheduler": Place("processes", "scheduler", "Keep the ticks coming: dispatch, recovery, purge."),
    "web": Place("web", "web", "Serve the admin pages and the API.", "web"),
    "smtp": Place("smtp", "smtp", "Take in mail of programs that speak SMTP.", "smtp"),
    "sandbox": Place("sandbox", "sandbox", "Serve a stand-in for Microsoft Graph and Entra.", "local"),
    "doctor": Place("operation", "doctor", "Check everything mail needs, and say what to do."),
    "vault": Place("vault", "vault", "Stored secrets, and the change of their key."),
    "recover-from-backup": Place(
        "restoring", "recover_from_backup", "After a restore: look up what may have been sent."
    ),
    "purge": Place("operation", "purge", "Delete messages that came to their end long ago."),
    "completion": Place("completion", "completion", "Print what completes commands in your shell."),
}


class Rqmail(click.Group):
    """Finds commands in their modules, and tells every error of ours in one line (with ``--json``, one object)."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Answer the commands in the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        try:
            command = getattr(import_module(f"rqmail.cli.{place.module}"), place.function)
        except ModuleNotFoundError as missing:
            if not place.extra or (missing.name or "").startswith("rqmail"):
                raise
            raise click.ClickException(f"{missing.name} is not installed; install rqmail[{place.extra}].") from None
        assert isinstance(command, click.Command)  # noqa: S101 - a wrong entry in the table above is a bug
        if not gc.isenabled():
            gc.freeze()  # what is imported stays
            gc.enable()
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether errors are to be JSON before anything can go wrong."""
        ctx.meta["rqmail.json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it raises becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if not ctx.meta["rqmail.json"]:
                raise
            return _fail(ctx, {"type": "UsageError", "message": error.format_message()}, error.exit_code)
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            found = explained(error)
            if found is None:
                raise
            return _fail(ctx, found.as_json(), found.exit_code)


def _fail(ctx: click.Context, error: dict[str, Any], exit_code: int) -> None:
    if ctx.meta["rqmail.json"]:
        click.echo(json.dumps({"error": error}, ensure_ascii=False), err=True)
    else:
        click.echo(f"Error: {error['message']}", err=True)
    ctx.exit(exit_code)


EPILOG = (
    "Exit codes: 0 done; 1 it failed, or something is wrong (see `rqmail doctor`); 2 wrong usage, a wrong setting, or"
    " input that cannot be used. Settings are RQMAIL_* variables, also read from .env."
)


@click.group(
    cls=Rqmail, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="rqmail")
def cli() -> None:
    """Send mail from Microsoft 365 mailboxes at scale, within each mailbox's budget, and never twice."""


def main() -> None:
    """Run the command line of this process."""
    gc.disable()  # until a command is loaded: what is imported is no garbage, and looking for some takes a tenth of it
    sys.exit(cli())

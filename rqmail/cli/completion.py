"""Completion of commands and options in a shell: ``completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_RQMAIL_COMPLETE"


@click.command(
    epilog="""\b
Examples:
  eval "$(rqmail completion bash)"                                       # in ~/.bashrc
  eval "$(rqmail completion zsh)"                                        # in ~/.zshrc
  rqmail completion fish > ~/.config/fish/completions/rqmail.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes rqmail's commands and options in SHELL."""
    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 - the choices above are click's own
    click.echo(script(ctx.find_root().command, {}, "rqmail", _VARIABLE).source())

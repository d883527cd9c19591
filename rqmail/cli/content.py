"""What a message carries beside its text, as options: files, pictures, headers, who it is from, how it is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Checked
from rqmail.intake.notices import notice_of_folded

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


class InlineFile(click.ParamType[tuple[str, Path]]):
    """A picture that the HTML shows: ``CID=FILE`` for ``<img src="cid:CID">``."""

    name = "cid=file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        """Split the id from the file."""
        if isinstance(value, tuple):
            return value
        content_id, equals, path = str(value).partition("=")
        if not equals or not content_id or not path:
            self.fail(f'{value!r} is no CID=FILE, such as logo=logo.png for <img src="cid:logo">.', param, ctx)
        return content_id, _FILE.convert(path, param, ctx)


class Header(click.ParamType[tuple[str, str]]):
    """A header of a mail: ``NAME: VALUE``; whether it may be set is decided where every caller is checked."""

    name = "header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split the name from the value."""
        if isinstance(value, tuple):
            return value
        name, colon, text = str(value).partition(":")
        if not colon:
            self.fail(f'{value!r} is no header; write "NAME: VALUE", such as "X-Order: 4711".', param, ctx)
        return name.strip(), text.strip()


def content_options(function: _F) -> _F:
    """Add the options of what a message carries beside its text; :func:`fields_of` reads them."""
    for option in reversed((
        click.option("--attach", multiple=True, type=_FILE, metavar="FILE", help="Attach a file; may be repeated."),
        click.option(
            "--inline",
            multiple=True,
            type=InlineFile(),
            metavar="CID=FILE",
            help='A picture that the HTML shows by <img src="cid:CID">; may be repeated.',
        ),
        click.option("--reply-to", multiple=True, metavar="ADDRESSES", help="Where answers go; may be repeated."),
        click.option(
            "--importance",
            type=click.Choice(["low", "normal", "high"]),
            default="normal",
            show_default=True,
            help="How mail programs mark the message.",
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            type=Header(),
            metavar='"NAME: VALUE"',
            help="A header of the mail; may be repeated.",
        ),
        click.option(
            "--unsubscribe-url", metavar="URL", help="List-Unsubscribe with one click (RFC 8058): an https address."
        ),
        click.option(
            "--unsubscribe",
            is_flag=True,
            help="A link of its one recipient's own to unsubscribe by, and one click; needs RQMAIL_WEB_URL.",
        ),
        click.option(
            "--ignore-unsubscribed",
            is_flag=True,
            help="Send also to who unsubscribed: no news, but what they need. Never past a bounce or a complaint.",
        ),
        click.option("--read-receipt", is_flag=True, help="Ask for a receipt when the mail is read."),
        click.option("--delivery-receipt", is_flag=True, help="Ask for a receipt when the mail is delivered."),
        click.option(
            "--from",
            "from_",
            metavar="ADDRESS",
            help="Whom the mail is from, if not the mailbox, which needs Exchange's permission to send as them.",
        ),
    )):  # fmt: skip
        function = option(function)
    return function


def fields_of(*, attach: Iterable[Path], inline: Iterable[tuple[str, Path]], **fields: Any) -> dict[str, Any]:
    """Answer what was typed as the fields of a draft."""
    files = [Attachment(path.name, path) for path in attach]
    pictures = [Attachment(path.name, path, is_inline=True, content_id=content_id) for content_id, path in inline]
    return {"attachments": [*files, *pictures], **fields}


def refuse_beside_eml(names: Iterable[str]) -> None:
    """Raise ``UsageError`` where one of these options was typed: a mail in MIME form says all of it itself."""
    context = click.get_current_context()
    typed = [
        one.opts[0]
        for one in context.command.params
        if one.name in names and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    ]
    if typed:
        raise click.UsageError(f"--eml says subject and body, and all else of the mail: leave out {', '.join(typed)}.")


def tell_notices(taken: Checked) -> None:
    """Say on stderr what whoever handed a message in should know about it."""
    for fold in taken.folded:
        click.echo(f"{notice_of_folded(fold).text}.", err=True)
    for one in taken.message.left_out:
        click.echo(f"{one.address} is suppressed ({one.reason} since {one.since:%Y-%m-%d}) and gets nothing.", err=True)
    for notice in taken.notices:
        click.echo(f"Warning: {notice.field}: {notice.text}", err=True)

"""Handing messages in: ``send`` one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, BinaryIO

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.content import content_options, fields_of, refuse_beside_eml, tell_notices
from rqmail.cli.parameters import TextFile, sender, sender_options
from rqmail.cli.printing import json_option, print_json
from rqmail.intake.addresses import parse_addresses
from rqmail.intake.draft import Draft
from rqmail.intake.relayed import relayed


@click.command(
    epilog="""\b
Examples:
  rqmail send --mailbox news --to jan@voorbeeld.nl --subject Hallo --text "Dag Jan"
  rqmail send --mailbox news --to "Jörg <j@beispiel.de>,a@x.nl" --subject Hi --html-file mail.html
  rqmail send --mailbox news --to a@x.nl --subject Factuur --text "Zie bijlage" --attach factuur.pdf
  rqmail send --mailbox news --to a@x.nl --subject Logo --html '<img src="cid:logo">' --inline logo=logo.png
  rqmail send --mailbox news --to a@x.nl --subject Nieuws --html-file mail.html --reply-to redactie@x.nl
    --header "X-Campaign: spring" --unsubscribe-url https://x.nl/u/4711
  rqmail send --mailbox news --eml mail.eml --to a@x.nl
  rqmail send --mailbox news --to a@x.nl --subject Later --text … --at 2026-03-01T09:00:00+01:00"""
)
@sender_options
@click.option("--to", multiple=True, metavar="ADDRESSES", help="Recipients, separated by commas; may be repeated.")
@click.option("--cc", multiple=True, metavar="ADDRESSES", help="Copies to.")
@click.option("--bcc", multiple=True, metavar="ADDRESSES", help="Blind copies to.")
@click.option("--subject", help="The subject.")
@click.option("--text", help="The plain text.")
@click.option("--html", help="The HTML.")
@click.option("--text-file", type=TextFile(), help="Read the text from a file, - for standard input.")
@click.option("--html-file", type=TextFile(), help="Read the HTML from a file, - for standard input.")
@click.option(
    "--eml",
    type=click.File("rb"),
    help="Send a mail in MIME form, - for standard input: to --to, --cc and --bcc if given, else to whom it names.",
)
@content_options
@click.option("--at", metavar="ISO8601", help="Not before this moment, with its time zone.")
@click.option("--expires", metavar="ISO8601", help="Give up at this moment.")
@click.option("--priority", type=click.Choice(["high", "normal", "low"]), default="normal", show_default=True)
@json_option
def send(
    mailbox: str | None,
    tenant: str | None,
    to: tuple[str, ...],
    cc: tuple[str, ...],
    bcc: tuple[str, ...],
    subject: str | None,
    text: str | None,
    html: str | None,
    text_file: str | None,
    html_file: str | None,
    eml: BinaryIO | None,
    at: str | None,
    expires: str | None,
    priority: str,
    *,
    json_: bool,
    **content: Any,
) -> None:
    """Hand in one message and print its id. It leaves as soon as its time and the budget allow."""
    if text is not None and text_file is not None:
        raise click.UsageError("--text and --text-file exclude each other.")
    if html is not None and html_file is not None:
        raise click.UsageError("--html and --html-file exclude each other.")
    if eml is not None:
        ignore_unsubscribed = content.pop("ignore_unsubscribed")
        refuse_beside_eml({"subject", "text", "html", "text_file", "html_file", *content})
        recipients = tuple(one.address for line in (*to, *cc, *bcc) for one in parse_addresses(line, "to"))
        with relayed(eml, sender(mailbox, tenant), recipients or None) as found:
            draft = replace(found.draft, at=at, expires=expires, priority=priority)
            _take(replace(draft, ignore_unsubscribed=ignore_unsubscribed), json_=json_)
        return
    if subject is None:
        raise click.UsageError("Missing option '--subject'.")
    draft = Draft(
        sender=sender(mailbox, tenant),
        subject=subject,
        to=to,
        cc=cc,
        bcc=bcc,
        text=text if text_file is None else text_file,
        html=html if html_file is None else html_file,
        at=at,
        expires=expires,
        priority=priority,
        **fields_of(**content),
    )
    _take(draft, json_=json_)


def _take(draft: Draft, *, json_: bool) -> None:
    [taken] = application().intake.by(COMMAND_LINE).take([draft])
    if json_:
        told = {
            "id": taken.message.id,
            "folded": taken.folded,
            "suppressed": taken.message.left_out,
            "notices": [one.told() for one in taken.notices],
        }
        print_json(told, one_line=True)
        return
    click.echo(taken.message.id)
    tell_notices(taken)

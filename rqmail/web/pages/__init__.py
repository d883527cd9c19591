"""The pages for people, one module a page. They read and change through the same use cases as the API."""

from __future__ import annotations

from flask import Blueprint

from rqmail.web.pages import (
    audit,
    campaigns,
    compose,
    decisions,
    doctor,
    forecast,
    imports,
    language,
    mailboxes,
    message,
    messages,
    overview,
    sentences,
    staged,
    suppression,
    tenants,
    tokens,
    writing,
)

blueprint = Blueprint("pages", __name__)

for _page in (
    overview,
    mailboxes,
    forecast,
    messages,
    message,
    compose,
    imports,
    campaigns,
    decisions,
    suppression,
    tenants,
    doctor,
    tokens,
    audit,
    language,
    staged,
):
    blueprint.register_blueprint(_page.blueprint)

language.install(blueprint)
writing.install(blueprint)
sentences.install(blueprint)

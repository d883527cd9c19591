"""What messages say: as it is stored, or rendered from a campaign's template and one row of its list."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rqmail.errors import InvalidInputError
from rqmail.models import campaigns
from rqmail.models.audience import Addressed, addressed
from rqmail.models.campaigns import Campaign
from rqmail.models.content import NO_EXTRAS, Extras, extras_of
from rqmail.models.contents import Contents, load_contents, load_recipients

if TYPE_CHECKING:
    from rqmail.campaigns.template import Rendered, Template

#: Stands in a rendered mail for the link by which its recipient unsubscribes, which is made when it is sent.
LINK_STAND_IN = "https://unsubscribe.invalid/"

#: Templates a process keeps compiled; a campaign's template never changes.
_MOST_KEPT = 50

#: By a campaign's id and when it was created.
_kept: dict[tuple[int, datetime], _Kept | str] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Kept:
    template: Template
    fields: tuple[str, ...]
    extras: Extras


def contents_of(ids: Sequence[str]) -> dict[str, Contents]:
    """Fetch what these messages say and to whom, rendered where they belong to a campaign.

    One that cannot be rendered says in ``problem`` why; left out is what cannot be read at all.
    """
    found = load_contents(ids)
    missing = [one for one in ids if one not in found]
    people = addressed(missing)
    recipients = load_recipients(list(people))
    for message_id, person in people.items():
        contents = _rendered(person)
        contents.recipients = recipients.get(message_id, [])
        found[message_id] = contents
    return found


def subject_of(campaign: Campaign, person: Addressed) -> str:
    """Answer the subject under which one person's mail is listed; of one that cannot be rendered the template's own."""
    kept = _template(person)
    if isinstance(kept, str):
        return str(campaign.subject)
    from rqmail.campaigns.template import UnrenderableError  # noqa: PLC0415 - Jinja2 is needed by campaigns alone

    try:
        return kept.template.render_subject(_values(kept, person))
    except UnrenderableError:
        return str(campaign.subject)[:200]


def render(campaign: Campaign, person: Addressed) -> Rendered:
    """Render what one person gets; raises ``UnrenderableError``, or ``InvalidInputError`` for a broken template."""
    kept = _template(person)
    if isinstance(kept, str):
        raise InvalidInputError("campaign", campaign.name, kept)
    return kept.template.render(_values(kept, person))


def _rendered(person: Addressed) -> Contents:
    if find_spec("jinja2") is None:
        return Contents(problem="rqmail[campaigns] is not installed where this worker runs", by_us=True)
    kept = _template(person)
    if isinstance(kept, str):
        return Contents(problem=kept)
    from rqmail.campaigns.template import UnrenderableError  # noqa: PLC0415 - as above

    try:
        rendered = kept.template.render(_values(kept, person))
    except UnrenderableError as unrenderable:
        return Contents(problem=str(unrenderable))
    return Contents(rendered.text, rendered.html, extras=kept.extras, subject=rendered.subject)


def _values(kept: _Kept, person: Addressed) -> dict[str, str]:
    return values_of(kept.fields, json.loads(person.data), person.address, person.name)


def values_of(fields: Sequence[str], values: Sequence[str], address: str, name: str) -> dict[str, str]:
    """Answer what a template is rendered with: a person's fields, their address and name, and how they unsubscribe."""
    given = {"to": address, "to_name": name, "unsubscribe_url": LINK_STAND_IN}
    return dict(zip(fields, values, strict=False)) | given


def _template(person: Addressed) -> _Kept | str:
    """Answer a campaign's template, compiled once in a process, or why there is none."""
    key = (person.campaign_id, person.made_on)
    with _lock:
        known = _kept.get(key)
    if known is None:
        known = _compiled(person.campaign_id)
        with _lock:
            while len(_kept) >= _MOST_KEPT:
                del _kept[next(iter(_kept))]
            _kept[key] = known
    return known


def _compiled(campaign_id: int) -> _Kept | str:
    campaign = campaigns.by_id(campaign_id)
    if campaign is None:
        return "The campaign it belongs to is gone."
    try:
        template = template_of(campaign)
    except InvalidInputError as wrong:
        return str(wrong)
    return _Kept(template, tuple(json.loads(campaign.fields)), extras_of(campaign.extras) or NO_EXTRAS)


def template_of(campaign: Campaign) -> Template:
    """Compile a campaign's template; raises ``InvalidInputError`` for one that was changed by hand."""
    from rqmail.campaigns.template import Template  # noqa: PLC0415 - as above

    return Template(campaign.subject, campaign.text, campaign.html, language=campaign.language)

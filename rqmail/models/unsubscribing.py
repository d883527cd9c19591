"""Whom the links belong to by which people unsubscribe; a link itself names a row here and no address."""

from __future__ import annotations

from collections.abc import Collection

import peewee
from uuid_utils import uuid7

from rqmail.models.base import BaseModel, db, is_postgresql, transaction

#: Addresses that one statement asks about or writes at most.
_AT_ONCE = 1_000


class UnsubscribeLink(BaseModel):
    """One address, as the suppression list writes it, that may unsubscribe within ``scope``: never deleted."""

    id = peewee.CharField(max_length=36, primary_key=True)
    address = peewee.CharField(max_length=320)
    scope = peewee.CharField(max_length=80)

    class Meta:
        """Name the table in full."""

        table_name = "unsubscribe_link"


def links_of(addresses: Collection[str], scope: str) -> dict[str, str]:
    """Answer the id behind the links of each address within ``scope``; one that has none yet gets it."""
    wanted = list(dict.fromkeys(addresses))
    found: dict[str, str] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        with transaction():
            found |= _known(part, scope)
            missing = [address for address in part if address not in found]
            if missing:
                places = ", ".join([f"({db.param}, {db.param}, {db.param})"] * len(missing))
                db.execute_sql(
                    f"INSERT INTO unsubscribe_link (id, address, scope) VALUES {places} ON CONFLICT DO NOTHING",  # noqa: S608
                    [value for address in missing for value in (str(uuid7()), address, scope)],
                )
                found |= _known(missing, scope)
    return found


def behind(link_id: str) -> tuple[str, str] | None:
    """Answer the address and the scope of a link, ``None`` where there is no such link."""
    sql = f"SELECT address, scope FROM unsubscribe_link WHERE id = {db.param}"  # noqa: S608 - placeholders
    with transaction():
        row = db.execute_sql(sql, (link_id,)).fetchone()
    return None if row is None else (row[0], row[1])


def _known(addresses: list[str], scope: str) -> dict[str, str]:
    if is_postgresql():
        condition, values = f"address = ANY({db.param}::text[])", [addresses]
    else:
        condition, values = f"address IN ({', '.join([db.param] * len(addresses))})", addresses  # type: ignore[assignment]
    sql = f"SELECT address, id FROM unsubscribe_link WHERE {condition} AND scope = {db.param}"  # noqa: S608 - placeholders
    return dict(db.execute_sql(sql, [*values, scope]).fetchall())

"""What two spellings of one mail address have in common."""

from __future__ import annotations

import idna


def same_person(address: str) -> str:
    """Answer the spelling that all spellings of one address share: lower case, its domain as DNS has it."""
    if address.isascii():
        return address.lower()
    local, _, domain = address.rpartition("@")
    try:
        domain = idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        domain = domain.lower()
    return f"{local.casefold()}@{domain}"

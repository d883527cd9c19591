"""What the DNS says of a domain that mail is sent from: SPF, DKIM and DMARC, by which others judge its mail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import dns.exception
import dns.resolver

#: How long one question may take; after one that took so long nobody is asked any more.
_SECONDS = 2.0

#: How many records an SPF check follows at most (RFC 7208, 4.6.4).
_MOST_SPF_LOOKUPS = 10

_EXCHANGE_SPF = ("spf.protection.outlook.com", "spf.protection.office365.us", "spf.protection.partner.outlook.cn")

#: Under which names each provider publishes the keys it signs with.
SELECTORS = {"microsoft-graph": ("selector1", "selector2"), "sendgrid": ("s1", "s2")}

Told = Literal["ok", "missing", "wrong", "unknown"]


@dataclass(frozen=True, slots=True)
class DomainRecords:
    """What was found of a domain; ``wrong`` is SPF that leaves Exchange out or stands twice, ``unknown`` no answer."""

    spf: Told
    dkim: Told
    dmarc: Told


class DnsAwayError(Exception):
    """The DNS did not answer a question."""


class Domains:
    """Looks domains up; once a question ran out of time, everything else is ``unknown`` at once."""

    def __init__(self, resolver: dns.resolver.Resolver | None = None) -> None:
        self._resolver = resolver
        self._away = False

    def records(self, domain: str, provider: str) -> DomainRecords:
        """Answer what the DNS says of ``domain``, for mail that leaves through ``provider``.

        SendGrid sends with a return path of its own, so the domain's SPF says nothing about it.
        """
        return DomainRecords(
            "ok" if provider == "sendgrid" else self._spf(domain), self._dkim(domain, provider), self._dmarc(domain)
        )

    def _spf(self, domain: str) -> Told:
        try:
            records = self._spf_records(domain)
            if not records:
                return "missing"
            return "ok" if len(records) == 1 and self._lets_exchange_send(records[0]) else "wrong"
        except DnsAwayError:
            return "unknown"

    def _lets_exchange_send(self, record: str) -> bool:
        """Follow ``include`` and ``redirect`` to the record of Exchange Online."""
        waiting = _named_in(record)
        for _ in range(_MOST_SPF_LOOKUPS):
            if not waiting:
                return False
            if any(name in _EXCHANGE_SPF for name in waiting):
                return True
            waiting += [name for text in self._spf_records(waiting.pop(0)) for name in _named_in(text)]
        return False

    def _spf_records(self, domain: str) -> list[str]:
        return [text for text in self._texts(domain) if text.lower().split(" ")[0] == "v=spf1"]

    def _dkim(self, domain: str, provider: str) -> Told:
        try:
            found = [
                text
                for selector in SELECTORS[provider]
                for text in self._texts(f"{selector}._domainkey.{domain}")
                if "p=" in text.replace(" ", "") and not text.replace(" ", "").rstrip(";").endswith("p=")
            ]
        except DnsAwayError:
            return "unknown"
        return "ok" if found else "missing"

    def _dmarc(self, domain: str) -> Told:
        """Look for a policy of the domain, or else of one above it."""
        labels = domain.split(".")
        try:
            for first in range(max(1, len(labels) - 1)):
                texts = self._texts(".".join(["_dmarc", *labels[first:]]))
                if any(text.replace(" ", "").lower().startswith("v=dmarc1;") for text in texts):
                    return "ok"
        except DnsAwayError:
            return "unknown"
        return "missing"

    def _texts(self, name: str) -> list[str]:
        if self._away:
            raise DnsAwayError(name)
        try:
            if self._resolver is None:
                self._resolver = dns.resolver.Resolver()
            answer = self._resolver.resolve(name, "TXT", lifetime=_SECONDS, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError) as error:
            self._away = isinstance(error, dns.exception.Timeout | dns.resolver.NoResolverConfiguration | OSError)
            raise DnsAwayError(name) from error
        return [b"".join(record.strings).decode(errors="replace") for record in answer]


def _named_in(record: str) -> list[str]:
    """Answer the domains whose records an SPF record takes over."""
    words = [word.lstrip("+").lower() for word in record.split()]
    return [
        word.partition(sign)[2].rstrip(".")
        for word in words
        for sign in ("include:", "redirect=")
        if word.startswith(sign)
    ]

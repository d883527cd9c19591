"""Whether others take our mail for real: the domains mail is sent from, and what their records lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rqmail.domains import SELECTORS, DomainRecords, Domains
from rqmail.insight.standing import Sentence

_NOTHING = Sentence("nothing-to-do", "")
_ONMICROSOFT = ".onmicrosoft.com"


@dataclass(frozen=True, slots=True)
class DomainFinding:
    """What was found of a sending domain (of the DNS itself where ``domain`` is empty), and what to do about it."""

    domain: str
    level: Literal["ok", "warning"]
    text: Sentence
    advice: Sentence = _NOTHING


def look_at_domains(domains: Domains, senders: Iterable[tuple[str, str]]) -> Iterator[DomainFinding]:
    """Look up the domain of each sender, given as its address and provider; each domain once."""
    unknown = []
    for domain, provider in sorted({(address.rpartition("@")[2].rstrip(">").lower(), by) for address, by in senders}):
        if domain.endswith(_ONMICROSOFT):
            text = "Exchange lets all such senders of a tenant reach 100 external recipients a day together"
            advice = "send from an address of a domain of your own"
            yield DomainFinding(domain, "warning", Sentence("onmicrosoft", text), Sentence("own-domain", advice))
            continue
        found = domains.records(domain, provider)
        if "unknown" in (found.spf, found.dkim, found.dmarc):
            unknown.append(domain)
        yield from _lacking(domain, provider, found)
    if unknown:
        text = f"the DNS does not answer: SPF, DKIM and DMARC are not known of {', '.join(unknown[:5])}"
        text += f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
        advice = "run `rqmail doctor` where the DNS can be asked"
        yield DomainFinding("", "warning", Sentence("dns-away", text), Sentence("ask-dns", advice))


def _lacking(domain: str, provider: str, found: DomainRecords) -> Iterator[DomainFinding]:
    include = "include:spf.protection.outlook.com"
    names = " and ".join(f"{selector}._domainkey" for selector in SELECTORS[provider])
    lacking = {
        ("spf", "missing"): ("no SPF record", f"publish TXT v=spf1 {include} -all"),
        ("spf", "wrong"): ("its SPF does not let Exchange Online send, or stands twice", f"one record, with {include}"),
        ("dkim", "missing"): (f"no DKIM key under {names}", "turn DKIM on for the domain and publish its records"),
        ("dmarc", "missing"): (
            "no DMARC policy",
            "publish TXT v=DMARC1; p=none; rua=mailto:… at _dmarc, then stricter",
        ),
    }
    told = {"spf": found.spf, "dkim": found.dkim, "dmarc": found.dmarc}
    for record, answer in told.items():
        if (record, answer) in lacking:
            text, advice = lacking[record, answer]
            yield DomainFinding(
                domain, "warning", Sentence(f"{record}-{answer}", text), Sentence(f"mend-{record}", advice)
            )
    if set(told.values()) == {"ok"}:
        yield DomainFinding(domain, "ok", Sentence("domain-ready", "SPF, DKIM and DMARC are there"))

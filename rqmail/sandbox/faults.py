"""Things that go wrong on demand: for the next calls, with a probability, or for one mailbox."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

#: What a fault does instead of the normal answer; ``latency`` only adds to it.
FAULT_KINDS = ("status", "html", "truncated-json", "short-body", "bad-token", "reset", "hang", "latency")
FAULT_TARGETS = ("graph", "token", "discovery", "traces")
_ACCEPTS = "accept-then-"


@dataclass(slots=True)
class Fault:
    """One rule: which calls it meets, how many of them, and what they get instead of their answer.

    ``accepts`` means the call is carried out first and only its answer is lost. ``count`` ``None`` means until removed.
    ``seconds`` is how long a hang or the extra latency lasts.
    """

    kind: str
    target: str = "graph"
    accepts: bool = False
    count: int | None = 1
    probability: float = 1.0
    seed: int = 0
    mailbox: str | None = None
    operation: str | None = None
    status: int = 503
    code: str | None = None
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    seconds: float = 30.0
    claims: str | None = None
    id: int = 0
    fired: int = 0
    _random: random.Random = field(default_factory=random.Random, repr=False)

    @classmethod
    def from_json(cls, wish: Mapping[str, Any]) -> Fault:
        """Read a rule from the control API; a ``ValueError`` says what is wrong with it.

        ``kind`` may be any of ``FAULT_KINDS``, each with ``accept-then-`` before it, or ``accept-then-504`` for short.
        """
        allowed = {entry.name: entry for entry in fields(cls) if entry.name not in ("id", "fired", "_random")}
        if unknown := sorted(set(wish) - set(allowed)):
            raise ValueError(f"unknown field {unknown[0]!r}; allowed: {', '.join(allowed)}")
        values = dict(wish)
        kind = str(values.get("kind", "status"))
        if kind.startswith(_ACCEPTS):
            kind, values["accepts"] = kind.removeprefix(_ACCEPTS), True
        if kind.isdigit():
            kind, values["status"] = "status", int(kind)
        values["kind"] = kind
        fault = cls(**values)
        if fault.kind not in FAULT_KINDS:
            raise ValueError(f"kind {fault.kind!r} is not one of {', '.join(FAULT_KINDS)}")
        if fault.target not in FAULT_TARGETS:
            raise ValueError(f"target {fault.target!r} is not one of {', '.join(FAULT_TARGETS)}")
        fault._check_values()
        if fault.mailbox is not None:
            fault.mailbox = fault.mailbox.strip().lower()
        fault._random.seed(fault.seed)
        return fault

    def _check_values(self) -> None:
        """Refuse what would only go wrong later, inside a call."""
        numbers = {"probability": (0.0, 1.0), "seconds": (0.0, 86_400.0), "status": (200, 599), "count": (1, 10**9)}
        for name, (low, high) in numbers.items():
            value = getattr(self, name)
            if value is None and name == "count":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ValueError(f"{name} must be a number from {low} to {high}")
        if not isinstance(self.headers, dict) or not all(isinstance(value, str) for value in self.headers.values()):
            raise ValueError("headers must be an object of strings")
        for name in ("mailbox", "operation", "code", "body", "claims"):
            if not isinstance(getattr(self, name), str | None):
                raise ValueError(f"{name} must be a string")  # noqa: TRY004 - one kind of refusal for the caller

    def meets(self, target: str, operation: str, mailbox: str | None) -> bool:
        """Tell whether this rule takes the call, and count it if so."""
        if self.target != target or self.count == 0:
            return False
        if self.mailbox not in (None, mailbox) or self.operation not in (None, operation):
            return False
        if self.probability < 1.0 and self._random.random() >= self.probability:
            return False
        if self.count is not None:
            self.count -= 1
        self.fired += 1
        return True

    def as_json(self) -> dict[str, Any]:
        """Answer the rule as the control API shows it; ``count`` is what is left."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "_random"}


class FaultPlan:
    """The rules in force, oldest first; the first that meets a call takes it."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._last_id = 0
        self.fired: Counter[str] = Counter()

    def add(self, fault: Fault) -> int:
        """Put a rule in force and answer its id."""
        self._last_id += 1
        fault.id = self._last_id
        self._faults.append(fault)
        return fault.id

    def pick(self, target: str, operation: str, mailbox: str | None = None) -> Fault | None:
        """Answer the rule this call falls under, if any."""
        for fault in self._faults:
            if fault.meets(target, operation, mailbox):
                self.fired[f"{_ACCEPTS if fault.accepts else ''}{fault.kind}"] += 1
                if fault.count == 0:
                    self._faults.remove(fault)
                return fault
        return None

    def clear(self, fault_id: int | None = None) -> None:
        """Take one rule out of force, or all."""
        self._faults = [fault for fault in self._faults if fault_id is not None and fault.id != fault_id]

    def as_json(self) -> list[dict[str, Any]]:
        """Answer the rules in force."""
        return [fault.as_json() for fault in self._faults]

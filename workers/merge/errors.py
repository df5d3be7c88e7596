"""A payload that cannot be merged is named, with the field that is wrong."""

from __future__ import annotations

from schemas.capture import PayloadKind


class PayloadError(ValueError):
    """One payload is malformed: `kind` says which, `field` says where in it, `problem` says what."""

    def __init__(self, kind: PayloadKind, field: str, problem: str) -> None:
        super().__init__(kind, field, problem)  # args as given: the error survives pickling
        self.kind: PayloadKind = kind
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.kind}: {self.field}: {self.problem}"

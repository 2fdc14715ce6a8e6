"""Measurements over HTTP."""

from batchline.wire.form import AnswerForm

__all__ = ["Landed", "Rejected"]


class Rejected(AnswerForm):
    """What is no measurement, by its line, or its place in the array, counted from 1."""

    line: int
    reason: str


class Landed(AnswerForm, omit_defaults=False):
    """How many measurements are on disk, and what of the request was none."""

    accepted: int
    rejected: list[Rejected]

"""`/v1/caller`: what may be done with a token, so that nothing else is offered."""

from typing import Final

from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.callers import CallerForm, caller_form

__all__ = ["OPERATIONS"]


async def read_caller(call: Call[NoForm]) -> CallerForm:
    """Who you are, and what you may do."""
    caller = call.caller
    return caller_form(caller.token, caller.producer_group() if caller.is_anybody else None)


OPERATIONS: Final = (Operation("GET", "/v1/caller", "read", read_caller, answer=CallerForm),)

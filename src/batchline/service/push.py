"""`/v1/topics/{topic}/messages/subscribe`: a WebSocket on which messages are pushed, and their ends told."""

from typing import Final

from batchline.core.timeline_checks import check_session
from batchline.service.hand import check_prefetch
from batchline.service.messages import MESSAGES
from batchline.service.operation import Socket, SocketCall
from batchline.service.subscriber import Subscriber
from batchline.wire.form import Form, given_span
from batchline.wire.push import SOCKET_PROTOCOL

__all__ = ["SOCKETS", "SubscribeQuery"]


class SubscribeQuery(Form):
    """Who wants messages, how many of them at most unfinished, for how long each."""

    consumer: str
    prefetch: int = 1
    #: A span such as 30s; without it, the topic's.
    duration: str | None = None
    #: The session of an earlier socket, to go on with what that had in hand; without it, a new one.
    session: int | None = None


async def subscribe(call: SocketCall[SubscribeQuery]) -> None:
    """Messages of a topic, pushed to a consumer as they become due; on the same socket it tells what became of them."""
    form = call.form
    duration = given_span("duration", form.duration)
    consumer, prefetch = call.caller.check_consumer(form.consumer), check_prefetch(form.prefetch)
    check_session(form.session)
    subscriber = Subscriber(call, consumer, prefetch, duration, form.session)
    try:
        await subscriber.enter()
        offered = call.socket.scope.get("subprotocols", ())
        await call.socket.accept(SOCKET_PROTOCOL if SOCKET_PROTOCOL in offered else None)
        await subscriber.live()
    finally:
        await subscriber.leave()


SOCKETS: Final = (Socket(f"{MESSAGES}/subscribe", "consume", subscribe, SubscribeQuery),)

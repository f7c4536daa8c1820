"""The worker's end of the queue: kombu's Redis transport, without its window for losses and with a guard before it."""

from handoff.transport.channel import SentinelTransport, Transport
from handoff.transport.guard import Fault, fault_of

__all__ = ["Fault", "SentinelTransport", "Transport", "fault_of"]

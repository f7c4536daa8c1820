"""A client of the API: every verb once for threads and once for asyncio, with typed results and errors.

Any HTTP client does as well; this one knows the shapes, and sends again what can be sent again.
"""

from forebay.client.answers import Answer
from forebay.client.asynchronous import AsyncClient
from forebay.client.bar import progress_bar
from forebay.client.bodies import Request, Source, encode, ready_made
from forebay.client.errors import FileError, NotEndedError, RequestFailedError, UnreachableError
from forebay.client.events import Ended, Event, Piece, StateReached
from forebay.client.listings import Listed, Model, Upload
from forebay.client.preparations import Preparation, PreparedItem
from forebay.client.rows import Row
from forebay.client.statuses import Status, Submitted
from forebay.client.sync import Client

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "Ended",
    "Event",
    "FileError",
    "Listed",
    "Model",
    "NotEndedError",
    "Piece",
    "Preparation",
    "PreparedItem",
    "Request",
    "RequestFailedError",
    "Row",
    "Source",
    "StateReached",
    "Status",
    "Submitted",
    "UnreachableError",
    "Upload",
    "encode",
    "progress_bar",
    "ready_made",
]

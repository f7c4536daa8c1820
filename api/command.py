"""``forebay api``: the HTTP process."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import sys
from types import FrameType

import click

from api.settings import ApiSettings
from forebay import logs
from forebay.cli import configuration_errors
from forebay.errors import ConfigurationError
from forebay.exposure import check_exposure
from forebay.settings import load
from handoff.connection import require

log = logging.getLogger(__name__)


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on; 127.0.0.1 by default.")
@click.option("--port", metavar="N", help="Port to listen on; 0 picks one and prints it.")
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
def api(host: str | None, port: str | None, redis: str | None) -> None:
    """Run the HTTP API."""
    overrides = {"FOREBAY_HOST": host, "FOREBAY_PORT": port, "REDIS_URL": redis}
    with configuration_errors():
        settings = load(ApiSettings, overrides)
        logs.set_up("api", settings.log_level)
        require(settings.redis_url)
        _allow_connections()
        listening = _listen(settings)
        host = str(listening.getsockname()[0])
        check_exposure(host, has_keys=settings.api_keys is not None, is_allowed=settings.allow_open)
        sys.exit(_serve(settings, listening))


def _allow_connections() -> None:
    """As many open files as this process may have: a caller who waits holds a connection, and 1024 are soon reached."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listen(settings: ApiSettings) -> socket.socket:
    """The listening socket, our own or the launcher's.

    Raises:
        ConfigurationError: the address cannot be taken.
    """
    if settings.listen_fd is not None:
        return socket.socket(fileno=settings.listen_fd)
    try:
        return socket.create_server((settings.host, settings.port), backlog=2048)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error


def _serve(settings: ApiSettings, listening: socket.socket) -> int:
    import uvicorn  # the help text does not need it

    from api.app import make_app
    from api.wire import LastWord

    app = make_app(settings)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=LastWord,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=settings.drain_s,
        timeout_keep_alive=75,
    )

    class Server(uvicorn.Server):
        """Says that it drains, so that readiness turns red before connections are refused."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.draining = True
            log.info("draining", extra={"signal": signal.Signals(sig).name})
            super().handle_exit(sig, frame)

    if settings.listen_fd is None:
        host, port = listening.getsockname()[:2]
        click.echo(f"listening on http://{host}:{port}")  # what --port 0 picked
        sys.stdout.flush()
    server = Server(config)
    # uvicorn sends itself the signal again once it has drained, which would make a clean stop look like a death.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listening])
    return 0 if server.started else 1

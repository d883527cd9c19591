"""The web process as it really runs, in a thread: waitress on a free port of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from waitress import create_server

from rqmail.bootstrap import Application
from rqmail.web import create_app


@contextmanager
def serving(application: Application) -> Iterator[str]:
    """Serve ``application`` and answer the address it is served at."""
    app = create_app(application, trusted_hosts=["127.0.0.1"])
    server = create_server(app, host="127.0.0.1", port=0, threads=4, ident=None)
    thread = threading.Thread(target=server.run, name="waitress", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.trigger.pull_trigger(server.close)
        thread.join(timeout=5)
        server.task_dispatcher.shutdown(timeout=5)

"""A service in a thread of the tests, and a client that knows nothing of it but HTTP."""

import http.client
import json
import socket
import threading
import time

import uvicorn

from diglm.serve.app import create_app
from diglm.serve.protocol import within
from diglm.serve.settings import Limits

JSON = {"Content-Type": "application/json"}


class Running:
    """Serves models while it is entered; arguments are those of `create_app`."""

    def __init__(self, models, limits=None, patience=60, **more):
        self.patience = patience
        self.limits = limits or Limits(watch_seconds=0.05)
        self.app = create_app(models, limits=self.limits, **more)
        self.service = self.app.state.service

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(
            self.app, http=within(self.limits), ws="none", log_level="critical", access_log=False
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        wait_until(lambda: self.server.started and self.service.models.ready, self.patience)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def send(self, method, path, body=None, headers=None):
        """Status, headers and body of the answer to one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def post(self, path, content, headers=None):
        """Status and JSON of the answer to a question."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        status, _, found = self.send("POST", path, body, JSON if headers is None else headers)
        return status, json.loads(found)

    def get(self, path, headers=None):
        status, _, found = self.send("GET", path, headers=headers)
        return status, json.loads(found)

    def raw(self, data, timeout=10.0):
        """Everything that comes back for some bytes, until the service closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            found = b""
            while part := connection.recv(65536):
                found += part
            return found


def wait_until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not _holds(true):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _holds(true) -> bool:
    try:
        return true()
    except Exception as error:
        if type(error).__name__ != "StaleElementReferenceException":
            raise
        return False  # the page was drawn anew between finding an element and reading it

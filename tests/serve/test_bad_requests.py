"""Whatever is sent, the answer is a documented refusal of one shape, and the service goes on."""

import json
import socket
import time

import pytest
from service_in_thread import JSON, Running, wait_until

from diglm.serve.settings import Limits
from malformed import REFUSALS, malformed

ROW = b'{"model": "line", "rows": [[1, 2, 3]]}'


@pytest.mark.parametrize(
    ("status", "body", "part"),
    [
        (400, b'{"rows": [[NaN, 1, 2]]}', "NaN"),
        (400, b'{"rows": [[-Infinity, 1, 2]]}', "-Infinity"),
        (400, b'{"rows": ' + b"[" * 100_000, "nested too deeply"),
        (400, b'{"rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (400, b"[1, 2]", "object"),
        (400, b"", "not JSON"),
        (400, b"{", "not JSON"),
        (400, '{"rows": [["é"]]}'.encode("latin-1"), "UTF-8"),
        (400, '{"rows": [[1]]}'.encode("utf-16"), "UTF-8"),
        (400, b'{"rows": [[' + b"9" * 10_000 + b"]]}", "too long"),
        (422, b'{"model": "line"}', "one of"),
        (422, b'{"model": "line", "rows": [], "records": []}', "one of"),
        (422, b'{"model": "line", "rows": []}', "not empty"),
        (422, b'{"model": "line", "rows": {}}', "list"),
        (422, b'{"model": "line", "rows": [[1, 2]]}', "3 values"),
        (422, b'{"model": "line", "rows": [[1, 2, "x"]]}', "'x'"),
        (422, b'{"model": "line", "rows": [[1, 2, [3]]]}', "nested"),
        (422, b'{"model": "line", "rows": [[1, 2, 1e999]]}', "infinity"),
        (422, b'{"model": "line", "rows": [[1, 2, "\\ud800"]]}', "held numbers"),
        (422, b'{"model": "line", "row": [[1, 2, 3]]}', "not read"),
        (422, b'{"model": "line", "rows": [[1, 2, 3]], "groups": ["a"]}', "groups"),
        (422, b'{"model": "line", "records": [{"0": 1, "1": 2}]}', "lacks ['2']"),
        (422, b'{"model": "line", "columns": {"0": [1], "1": [2], "2": [1, 2]}}', "length"),
        (422, b'{"model": "flats", "rows": [[1, 2, "yesterday", "north", 3]]}', "YYYY-MM-DD"),
    ],
)
def test_bodies_are_refused_with_what_is_wrong(service, status, body, part):
    found, content = service.post("/assess", body)
    assert (found, set(content)) == (status, {"error", "hint"}), content
    assert part in content["error"] + content["hint"]


@pytest.mark.parametrize(
    ("path", "content", "part"),
    [
        ("/sample", {"n": 0}, "between"),
        ("/sample", {"n": True}, "number"),
        ("/sample", {"seed": -1}, "seed"),
        ("/sample", {"temperature": 0}, "temperature"),
        ("/sample", {"y": [1]}, "y must be"),
        ("/counterfactual", {"rows": [[1, 2, 3]]}, "target"),
        ("/counterfactual", {"rows": [[1, 2, 3]], "target": 1, "margin": -1}, "margin"),
        ("/counterfactual", {"rows": [[1, 2, 3]], "target": [1, 2]}, "one a row"),
        ("/counterfactual", {"rows": [[1, 2, 3]], "target": "high"}, "high"),
        ("/counterfactual", {"rows": [[1, 2, 3]], "target": 1, "bounds": {"0": 5}}, "0"),
        ("/interpolate", {"rows": [[1, 2, 3]] * 2, "steps": 1000}, "steps"),
        ("/drift", {"rows": [[1, 2, 3]], "reference": {"rows": [[1, 2, 3]]}}, "reference"),
    ],
)
def test_other_questions_are_refused_with_what_is_wrong(service, path, content, part):
    status, found = service.post(path, {"model": "line", **content})
    assert (status, set(found)) == (422, {"error", "hint"}), found
    assert part in found["error"]


def test_many_malformed_bodies_are_refused_and_the_service_goes_on(service):
    for path, body, kind in malformed(240, seed=1, names=("line", "flats", "cloud")):
        status, content = service.post(path, body, {"Content-Type": kind} if kind else {})
        assert status in (200, *REFUSALS), (status, path, body[:200])
        assert status == 200 or set(content) == {"error", "hint"}
    assert service.post("/assess", ROW)[0] == 200
    assert service.get("/health")[0] == 200


def test_too_much_is_refused_before_it_is_read(service, files):
    small = Limits(body_bytes=2_000, rows=5, watch_seconds=5)
    with Running({"line": files["line"]}, small) as running:
        status, content = running.post("/assess", {"rows": [[0.0, 0.0, 0.0]] * 6})
        assert status == 413 and "at most 5" in content["error"]
        status, content = running.post("/assess", b"[" + b" " * 9_000 + b"]")
        assert status == 413 and "2000 bytes" in content["error"]
        head = b"POST /assess HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n"
        found = running.raw(head + chunks + 4 * (b"400\r\n" + b" " * 1024 + b"\r\n") + b"0\r\n\r\n")
        assert b"413" in found.splitlines()[0]
        assert running.post("/sample", {"n": 6})[0] == 413
        long = running.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000)
        assert b"431" in long.splitlines()[0]
        whole = running.raw(b"GET /health HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n")
        assert b"431" in whole.splitlines()[0]


def test_slow_senders_do_not_hold_connections(files):
    slow = Limits(header_seconds=0.3, body_seconds=0.3, watch_seconds=5)
    with Running({"line": files["line"]}, slow) as running:
        assert b"408" in running.raw(b"")
        assert b"408" in running.raw(b"POST /assess HTTP/1.1\r\nHost: loc")
        head = b"POST /assess HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        found = running.raw(head + b"Content-Length: 100\r\n\r\n{")
        assert b"408" in found.splitlines()[0]
        assert set(json.loads(found.split(b"\r\n\r\n")[1])) == {"error", "hint"}
        assert b"400" in running.raw(b"this is no HTTP\r\n\r\n").splitlines()[0]


def test_too_many_connections_are_turned_away(files):
    few = Limits(connections=3, watch_seconds=5)
    with Running({"line": files["line"]}, few) as running:
        held = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(3)]
        time.sleep(0.2)
        assert b"503" in running.raw(b"").splitlines()[0]
        for connection in held:
            connection.close()
        wait_until(lambda: running.send("GET", "/health")[0] == 200)


def test_a_full_queue_is_a_503_that_says_when(files):
    tight = Limits(queued_rows=2, watch_seconds=5)
    with Running({"line": files["line"]}, tight) as running:
        status, headers, body = running.send(
            "POST", "/assess", json.dumps({"rows": [[0, 0, 0]] * 3}), JSON
        )
        assert status == 503 and int(headers["retry-after"]) >= 1
        assert set(json.loads(body)) == {"error", "hint"}


def test_faults_are_logged_without_contents(service, caplog, monkeypatch):
    monkeypatch.setattr(
        "diglm.serve.describe.summary", lambda served: {}["a secret of row 7"], raising=True
    )
    with caplog.at_level("INFO", logger="diglm.serve"):
        status, content = service.get("/models")
        service.post("/assess", b'{"model": "line", "rows": [[1, 2, "secret cell"]]}')
    assert status == 500 and "secret" not in json.dumps(content)
    assert "KeyError" in caplog.text and "POST /assess 422" in caplog.text
    assert "secret" not in caplog.text

"""Who may ask: hosts, origins, tokens; and no way out of the models and files that are served."""

import pytest
from service_in_thread import JSON, Running

from diglm.serve.app import serve
from diglm.serve.security import Guard, hosts_of
from diglm.serve.settings import Limits, check_binding, check_name

TOKEN = "a long enough token"
ROWS = {"model": "line", "rows": [[1, 2, 3]]}


@pytest.fixture(scope="module")
def locked(files):
    with Running({"line": files["line"]}, Limits(watch_seconds=5), token=TOKEN) as running:
        yield running


def test_without_the_token_nothing_is_told(locked):
    wrong = ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
    for given in [None, *wrong, "Bearer é"]:
        headers = {**JSON, **({} if given is None else {"Authorization": given.encode()})}
        for method, path in (("POST", "/assess"), ("GET", "/models"), ("GET", "/metrics")):
            status, answered, _ = locked.send(method, path, b"{}", headers)
            assert status == 401, (given, path)
            assert answered["www-authenticate"] == "Bearer"
    assert locked.get("/openapi.json")[0] == 401
    assert locked.get("/models/line")[0] == 401


def test_with_the_token_all_is_and_some_needs_none(locked):
    headers = {**JSON, "Authorization": f"Bearer {TOKEN}"}
    assert locked.post("/assess", ROWS, headers)[0] == 200
    assert locked.get("/models", headers)[0] == 200
    for path in ("/", "/page/app.js", "/health", "/ready"):
        assert locked.send("GET", path)[0] == 200


def test_tokens_are_compared_in_constant_time(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "diglm.serve.security.hmac.compare_digest", lambda a, b: seen.append((a, b)) or a == b
    )
    guard = Guard(lambda *_: None, frozenset(), TOKEN)  # type: ignore[arg-type]
    head = [(b"host", b"localhost"), (b"authorization", b"Bearer " + TOKEN.encode())]
    guard._check({"type": "http", "method": "GET", "path": "/models", "headers": head})
    assert seen == [(TOKEN.encode(), TOKEN.encode())]


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", ""])
def test_other_names_for_this_machine_are_refused(service, host):
    status, _, body = service.send("GET", "/models", headers={"Host": host})
    assert status == 421 and b"hint" in body


def test_own_names_are_not(service):
    for host in ("localhost", "127.0.0.1", "[::1]", f"LOCALHOST:{service.port}"):
        assert service.send("GET", "/models", headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
def test_pages_of_other_origins_are_refused(service, headers):
    status, answered, _ = service.send("POST", "/assess", b"{}", {**JSON, **headers})
    assert status == 403
    assert not any(name.lower().startswith("access-control") for name in answered)
    status, answered, _ = service.send("OPTIONS", "/assess", headers=headers)
    assert status == 403 and "access-control-allow-origin" not in map(str.lower, answered)


def test_the_page_itself_and_links_to_it_are_not(service):
    own = {**JSON, "Origin": service.url, "Sec-Fetch-Site": "same-origin"}
    assert service.post("/assess", ROWS, own)[0] == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert service.send("GET", "/", headers=link)[0] == 200
    assert service.send("POST", "/assess", b"{}", {**JSON, **link})[0] == 403


def test_simple_requests_of_forms_are_not_read(service):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert service.send("POST", "/assess", b"{}", {"Content-Type": kind})[0] == 415


@pytest.mark.parametrize(
    "path",
    [
        "/models/../../../etc/passwd",
        "/models/..%2f..%2fetc%2fpasswd",
        "/models/%2e%2e",
        "/models/.hidden",
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e%2fapp.py",
        "/page/__init__.py",
        "/page//etc/passwd",
        "/page/app.js%00.css",
        "//etc/passwd",
    ],
)
def test_paths_do_not_lead_out(service, path):
    status, content = service.get(path)
    assert status == 404 and set(content) == {"error", "hint"}


def test_answers_carry_headers_that_browsers_heed(service):
    for path in ("/", "/page/app.js", "/models", "/nothing"):
        _, headers, _ = service.send("GET", path)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in map(str.lower, headers) or headers["server"] == "uvicorn"


def test_the_service_is_not_put_where_others_reach_it_by_accident(files):
    with pytest.raises(ValueError, match="token"):
        serve(files, host="0.0.0.0", port=1)
    check_binding("0.0.0.0", TOKEN, False)
    check_binding("192.168.0.7", None, True)
    for host in ("127.0.0.1", "127.3.2.1", "::1", "localhost"):
        check_binding(host, None, False)
    for token in ("short", "tab\tin the token", "ключ-ключ"):
        with pytest.raises(ValueError, match="8 printable"):
            check_binding("127.0.0.1", token, False)


def test_names_of_hosts_follow_the_address():
    assert "localhost" in hosts_of("127.0.0.1", ())
    assert hosts_of("0.0.0.0", ()) == frozenset()
    assert "models.example" in hosts_of("0.0.0.0", ("Models.example",))
    assert hosts_of("fe80::1", ()) == frozenset({"[fe80::1]"})


def test_names_of_models_are_plain():
    for name in ("../a", "a/b", ".a", "", "a" * 65, "a b", "é", None, 3):
        with pytest.raises(ValueError, match="letters, digits"):
            check_name(name)
    assert check_name("prices-2.v1_final") == "prices-2.v1_final"


def test_limits_are_positive_numbers():
    for wrong in (0, -1, float("nan"), True, "10"):
        with pytest.raises(ValueError, match="positive"):
            Limits(rows=wrong)  # type: ignore[arg-type]

"""`diglm serve`: what is asked for is what the service is told."""

import pytest

pytest.importorskip("uvicorn", reason="the extra diglm[serve] is not installed")

from diglm.cli.commands import service  # noqa: E402

TOKEN = "a token of some length"


def test_flags_and_variables_reach_the_service(diglm, model, tmp_path, monkeypatch):
    told = {}

    def serve(models, host, port, token, allow_public, **more):
        told.update(more, models=models, place=(host, port), token=token, public=allow_public)

    monkeypatch.setattr("diglm.serve.app.serve", serve)
    monkeypatch.setattr(service.compiling, "use_cache", lambda: told.update(kept=True))
    monkeypatch.setenv("DIGLM_TOKEN", TOKEN)
    words = ["--host", "0.0.0.0", "--port", 81, "--folder", tmp_path, "--proxy-name", "m.example"]
    ended = diglm("serve", f"mine={model}", "mnist", *words)
    assert ended.code == 0, ended.err
    assert told["models"]["mine"] == model and told["models"]["mnist"].name == "mnist.safetensors"
    assert told["place"] == ("0.0.0.0", 81) and told["token"] == TOKEN and not told["public"]
    assert told["kept"]  # compiled programs, so that the next start is quick
    assert told["folder"] == tmp_path and told["hosts"] == ("m.example",)

"""Models come and go while the service runs; nobody sees half of one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from service_in_thread import Running, wait_until

from diglm import HybridRegressor
from diglm.serve.models import Models

ROW = {"rows": [[0.5, -0.2, 0.1]]}


@pytest.fixture(scope="module")
def other():
    """Another model of the same columns."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    settings = dict(head="gaussian", n_epochs=3, random_state=1, verbose=False)
    return HybridRegressor("linear", **settings).fit(X, 5 + X[:, 1] + 0.1 * rng.normal(size=300))


def test_a_changed_file_is_loaded_and_every_answer_is_of_one_model(tmp_path, regressor, other):
    path = tmp_path / "line.diglm"
    regressor.save(path)
    X = np.array(ROW["rows"])
    old, new = (model.assess(X)["prediction"][0] for model in (regressor, other))
    assert abs(old - new) > 1
    with Running({"line": path}) as running, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(running.post, "/assess", ROW) for _ in range(40)]
        other.save(path)

        def says_new():
            return abs(running.post("/assess", ROW)[1]["answers"]["prediction"][0] - new) < 1e-9

        wait_until(says_new)
        for answer in asked:
            status, content = answer.result()
            said = content["answers"]["prediction"][0]
            assert status == 200 and min(abs(said - old), abs(said - new)) < 1e-9
        path.write_bytes(b"broken")
        count = running.service.metrics.registry.get_sample_value
        wait_until(lambda: count("diglm_model_changes_total", {"model": "line", "what": "failed"}))
        assert says_new()  # the old model goes on
        path.unlink()
        time.sleep(0.2)
        assert says_new()
        regressor.save(path)
        wait_until(lambda: not says_new())


def test_a_folder_is_watched(tmp_path, regressor, other):
    folder = tmp_path / "models"
    folder.mkdir()
    with Running({}, folder=folder) as running:
        assert running.post("/assess", ROW)[0] == 503
        regressor.save(folder / "first.diglm")
        (folder / "notes.txt").write_text("not a model")
        shutil.copy(folder / "first.diglm", folder / "-strange name.diglm")
        names = lambda: [m["name"] for m in running.get("/models")[1]["models"]]  # noqa: E731
        wait_until(lambda: names() == ["first"])
        assert running.post("/assess", {"model": "first", **ROW})[0] == 200
        (folder / "first.diglm").unlink()
        wait_until(lambda: names() == [])
        assert running.post("/assess", {"model": "first", **ROW})[0] == 404


def test_what_is_wrong_with_a_file_is_said_at_the_start(tmp_path, files):
    with pytest.raises(FileNotFoundError):
        Models({"absent": tmp_path / "absent.diglm"})
    (tmp_path / "broken.diglm").write_bytes(b"1234")
    with pytest.raises(ValueError, match="not a whole diglm model"):
        Models({"broken": tmp_path / "broken.diglm"})
    with pytest.raises(ValueError, match="letters, digits"):
        Models({"../line": files["line"]})
    with pytest.raises(FileNotFoundError, match="folder"):
        Models({}, folder=tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no model"):
        Models({})


SCRIPT = """
import sys, logging
from pathlib import Path
from diglm.serve.app import serve
logging.basicConfig(level=logging.INFO)
serve({"line": Path(sys.argv[1])}, port=int(sys.argv[2]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no signals of that kind here")
def test_signals_reload_and_end_a_service(tmp_path, files, service):
    """A process of its own: reload on SIGHUP, and an orderly end on SIGTERM."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(files["line"]), str(port)],
            stderr=out,
            env={
                **os.environ,
                "JAX_ENABLE_X64": "1",
                "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            },
        )
    try:
        wait_until(lambda: b"is warm" in log.read_bytes(), 60)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: b"line was loaded" in log.read_bytes(), 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0 or process.returncode == -signal.SIGTERM
        assert b"Traceback" not in log.read_bytes()
    finally:
        process.kill()

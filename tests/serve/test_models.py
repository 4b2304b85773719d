"""Models come and go while the service runs; nobody sees half of one."""

import asyncio
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from service_in_thread import Running, wait_until

from diglm import HybridRegressor
from diglm.serve.app import create_app
from diglm.serve.models import Models
from diglm.serve.settings import Limits

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


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no signals of that kind here")
def test_a_hangup_loads_all_models_anew(files):
    app = create_app({"line": files["line"]}, limits=Limits(watch_seconds=60))
    models = app.state.service.models

    async def scenario():
        async with app.router.lifespan_context(app):
            await asyncio.to_thread(wait_until, lambda: models.ready, 60)
            before = models.find("line")
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.to_thread(wait_until, lambda: models.find("line") is not before, 60)

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() <= before  # those of the service are gone


def test_paths_are_counted_by_their_pattern(files):
    with Running({"line": files["line"]}, Limits(watch_seconds=30)) as running:
        for path in ("/models/line", "/models/absent", "/nowhere"):
            running.get(path)
        text = running.service.metrics.text().decode()
    assert 'path="/models/{name}",status="200"' in text
    assert 'path="/models/{name}",status="404"' in text
    assert 'path="other",status="404"' in text and "absent" not in text

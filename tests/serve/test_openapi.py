"""The service fuzzed by its own description: what it answers is what it says that it answers."""

import hypothesis
import pytest

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402
from service_in_thread import Running  # noqa: E402

from diglm.serve.openapi import PATHS  # noqa: E402
from diglm.serve.settings import Limits  # noqa: E402

TOKEN = "a token for the fuzzer"


@pytest.fixture(scope="module")
def locked(files):
    models = {name: files[name] for name in ("line", "flats")}
    with Running(models, Limits(watch_seconds=60), token=TOKEN) as running:
        yield running


@pytest.mark.parametrize("path", [path.path for path in PATHS if path.shown])
def test_answers_are_as_described(locked, path):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    schema = schemathesis.openapi.from_url(f"{locked.url}/openapi.json", headers=headers)
    found = [result.ok() for result in schema.include(path=path).get_all_operations()]
    assert len(found) == 1

    @hypothesis.settings(max_examples=5, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=found[0].as_strategy())
    def ask(case):
        # Which columns rows must have is told by /models/NAME, not by the description.
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

    ask()


def test_every_path_is_described(locked):
    described = locked.get("/openapi.json", {"Authorization": f"Bearer {TOKEN}"})[1]["paths"]
    assert set(described) == {path.path for path in PATHS if path.shown}
    for path in PATHS:
        if path.shown:
            entry = described[path.path][path.method.lower()]
            assert entry["description"] and {"200", "401", "421"} <= set(entry["responses"])

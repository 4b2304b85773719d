"""Help and mistakes are answered at once: nothing heavy is imported before it is needed."""

import resource
import subprocess
import sys

import pytest
from running_commands import in_process_of_its_own

HEAVY = {"jax", "numpy", "sklearn", "scipy", "pyarrow", "equinox", "matplotlib", "diglm.estimators"}
COMMANDS = (
    "train predict evaluate report sample explain drift serve reproduce data demo info doctor"
)


def test_nothing_heavy_is_imported_before_a_command_runs():
    code = "import sys, diglm.cli.app; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "diglm.cli.commands.train" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())


def test_help_takes_less_than_half_a_second():
    """By the processor's clock: others may be using the machine."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = in_process_of_its_own("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        assert done.returncode == 0 and done.stderr == ""
    assert min(seconds) < 0.5
    assert all(f"\n  {command}" in done.stdout for command in COMMANDS.split())


@pytest.mark.parametrize("command", COMMANDS.split())
def test_every_command_explains_itself(diglm, command):
    ended = diglm(command, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: diglm {command}")


def test_names_of_the_package_are_found_when_they_are_asked_for():
    code = (
        "import sys, diglm; assert 'jax' not in sys.modules; dir(diglm);"
        "assert {'HybridClassifier', 'load', 'use_cache'} <= set(dir(diglm));"
        "assert 'jax' not in sys.modules; from diglm import HybridClassifier, heads;"
        "assert diglm.HybridClassifier is HybridClassifier and 'jax' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there_is_an_attribute_error():
    import diglm

    with pytest.raises(AttributeError, match="no attribute 'HybridClasifier'"):
        _ = diglm.HybridClasifier

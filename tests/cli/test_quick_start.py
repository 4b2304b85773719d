"""Help and mistakes are answered at once: nothing heavy is imported before it is needed."""

import resource
import subprocess
import sys

import pytest
from running_commands import in_process_of_its_own

import diglm

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
def test_every_command_explains_itself(request, command):
    ended = request.getfixturevalue("diglm")(command, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: diglm {command}")


@pytest.mark.parametrize(
    ("typed", "offered"), [("diglm tr", "train"), ("diglm train --te", "--test-share")]
)
def test_shells_are_told_how_words_may_end(monkeypatch, typed, offered):
    monkeypatch.setenv("_DIGLM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    done = in_process_of_its_own()
    assert (done.returncode, done.stdout.split()) == (0, [offered]), done.stderr


def test_names_of_the_package_are_found_when_they_are_asked_for():
    code = (
        "import sys, diglm; assert 'jax' not in sys.modules; dir(diglm);"
        "assert {'HybridClassifier', 'load', 'use_cache'} <= set(dir(diglm));"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in diglm.__all__:
        assert getattr(diglm, name) is not None
    assert diglm.HybridClassifier.__module__ == "diglm.estimators.classifier"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'HybridClasifier'"):
        _ = diglm.HybridClasifier


def test_a_shell_can_complete_commands_and_flags(monkeypatch):
    for words, place, found in (("diglm tr", "1", "train"), ("diglm train --ta", "2", "--target")):
        monkeypatch.setenv("_DIGLM_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", place)
        assert in_process_of_its_own().stdout.split() == [found]

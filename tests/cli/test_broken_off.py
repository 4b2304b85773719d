"""Killed, interrupted, or out of disk: no half a file under its name, and earlier ones intact."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running_commands import HEADER, in_process_of_its_own, rows

from diglm import load
from diglm.atomic import replacing
from diglm.cli.errors import Interrupted
from diglm.cli.terminal import Talk
from diglm.cli.work.running import Run

SOURCE = str(Path(__file__).parents[2] / "src")


def begin(*words: object, code: str | None = None) -> subprocess.Popen:
    """A command that goes on while the test does."""
    start = ["-m", "diglm"] if code is None else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *start, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )


def wait_for(found, process: subprocess.Popen, seconds: float = 60) -> None:
    """Until something is there; a process that ended before is a failure."""
    end = time.monotonic() + seconds
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_a_killed_writer_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("earlier")
    code = (
        "import sys, time; from diglm.atomic import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); time.sleep(60)"
    )
    writer = begin(path, code=code)
    wait_for(lambda: any(file.stat().st_size == 4 for file in tmp_path.glob(".page*")), writer)
    writer.kill()
    writer.communicate()
    assert path.read_text() == "earlier"


def test_an_error_leaves_the_earlier_file_and_nothing_else(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("earlier")
    with pytest.raises(OSError), replacing(path) as file:
        file.write(b"half")
        raise OSError("no space left")
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", ["predict", "report", "sample"])
def test_a_disk_that_is_full_is_told_and_the_earlier_file_stays(
    diglm, model, later_table, tmp_path, monkeypatch, command
):
    out = tmp_path / {"report": "report.html"}.get(command, "answers.csv")
    out.write_text("earlier")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("diglm.atomic.os.fsync", full)
    data = () if command == "sample" else (later_table,)
    ended = diglm(command, model, *data, "--out", out)
    assert ended.code == 2 and "error: " in ended.err and "No space left" in ended.err, ended.err
    assert "hint: free some space" in ended.err and "Traceback" not in ended.err
    assert out.read_text() == "earlier" and list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_a_small_disk_that_is_full_is_told(model, later_table, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        out = disk / "report.html"
        out.write_text("earlier")
        done = in_process_of_its_own("report", model, later_table, "--out", out)
        assert done.returncode == 2 and "No space left" in done.stderr, done.stderr
        assert out.read_text() == "earlier" and list(disk.iterdir()) == [out]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_training_is_killed_interrupted_and_finished(tmp_path):
    """Killed in the middle, resumed and stopped by Ctrl-C, and resumed to the end."""
    table, out = tmp_path / "plants.csv", tmp_path / "plants.diglm"
    table.write_text("\n".join([HEADER, *rows(400)]) + "\n")
    out.write_text("earlier")
    words = ["train", table, "--target", "kind", "--out", out, "--flow", "linear", "-q"]
    words += ["--epochs", "600", "--set", "patience=600", "--set", "batch_size=8"]
    run = tmp_path / "plants.diglm.run"
    first = begin(*words)
    wait_for(lambda: any((run / "states").glob("[0-9]*")), first)
    first.kill()
    first.communicate()
    assert out.read_text() == "earlier"
    kept = {state.name for state in (run / "states").glob("[0-9]*")}
    second = begin(*words)
    wait_for(lambda: {s.name for s in (run / "states").glob("[0-9]*")} - kept, second)
    second.send_signal(signal.SIGINT)
    _, said = second.communicate(timeout=60)
    assert second.returncode == 130 and out.read_text() == "earlier", said
    assert f"the run is kept in {run}" in said and "hint: to go on, the same again: diglm" in said
    third = in_process_of_its_own(*words)
    assert third.returncode == 0, third.stderr
    assert load(out).n_epochs_ == 600 and not run.exists()


def test_an_interrupt_before_anything_is_kept_says_how_to_go_on(tmp_path):
    run = Run(tmp_path / "m.diglm", {"seed": 0}, False, Talk(quiet=True))
    before = signal.getsignal(signal.SIGINT)  # a suite in the background is told to ignore it
    with pytest.raises(Interrupted, match="the same again: diglm train x"):
        with run.kept("diglm train x"):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_a_callback_swallows_comes_again(tmp_path, monkeypatch):
    monkeypatch.setattr("diglm.cli.work.running.REPEAT_AFTER", 0.02)
    run = Run(tmp_path / "m.diglm", {"seed": 0}, False, Talk(quiet=True))
    with pytest.raises(Interrupted), run.kept("diglm train x"):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
        time.sleep(5)

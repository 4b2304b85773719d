"""Killed, interrupted, or out of disk: no half a file under its name, and earlier ones intact."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running_commands import HEADER, TINY, rows

from diglm.atomic import replacing
from diglm.cli.errors import Interrupted
from diglm.cli.terminal import Talk
from diglm.cli.work.running import Run

SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def begin():
    """Start commands that go on while the test does, and no longer."""
    started = []

    def start(*words: object, code: str | None = None) -> subprocess.Popen:
        how = ["-m", "diglm"] if code is None else ["-c", code]
        process = subprocess.Popen(
            [sys.executable, *how, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": SOURCE},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(found, process: subprocess.Popen, seconds: float = 300) -> None:
    """Until something is there; a process that ended before is a failure."""
    end = time.monotonic() + seconds
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def states(run: Path) -> set[int]:
    """Steps at which a run was kept, those that are whole."""
    return {int(state.name) for state in (run / "states").glob("*") if state.name.isdigit()}


def test_a_killed_writer_leaves_the_earlier_file(begin, tmp_path):
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
    writer.wait()
    assert path.read_text() == "earlier"


def test_an_error_leaves_the_earlier_file_and_nothing_else(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("earlier")
    with pytest.raises(OSError), replacing(path) as file:
        file.write(b"half")
        raise OSError("no space left")
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", ["predict", "sample"])
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


@pytest.mark.parametrize("command", ["predict", "report", "sample", "train"])
def test_a_kill_at_any_moment_leaves_the_earlier_file(
    diglm, model, table, later_table, tmp_path, monkeypatch, command
):
    """What stands on the disk while a file is written is what a kill would leave."""
    out = tmp_path / {"report": "report.html", "train": "m.diglm"}.get(command, "answers.csv")
    out.write_text("earlier")
    seen = []

    def look(descriptor: int) -> None:
        others = {path.name for path in tmp_path.iterdir()} - {f"{out.name}.run"}
        size = os.fstat(descriptor).st_size
        if others > {out.name}:  # this file, not one of the run's folder
            seen.append((out.read_text(), size, others - {out.name}))

    monkeypatch.setattr("diglm.atomic.os.fsync", look)
    words = {
        "sample": (model, "--out", out),
        "train": (table, "--target", "kind", "--out", out, "-q", *TINY),
    }
    ended = diglm(command, *words.get(command, (model, later_table, "--out", out)))
    assert ended.code == 0, ended.err
    ((before, size, others),) = seen  # when the file was whole, but not yet in its place
    assert before == "earlier" and size > 0 and all(name.startswith(".") for name in others)
    assert out.stat().st_size == size and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("command", ["predict", "report", "sample", "train"])
def test_a_small_disk_that_is_full_is_told(diglm, model, table, later_table, tmp_path, command):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        out = disk / {"report": "report.html", "train": "m.diglm"}.get(command, "answers.csv")
        out.write_text("earlier")
        words = {
            "sample": (model, "-n", "200"),
            "train": (table, "--target", "kind", "-q", *TINY),
        }
        ended = diglm(command, *words.get(command, (model, later_table)), "--out", out)
        assert ended.code == 2 and "No space left" in ended.err, ended.err
        assert out.read_text() == "earlier" and list(disk.iterdir()) == [out]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_training_is_killed_goes_on_and_is_interrupted(begin, tmp_path):
    """Killed in the middle, and begun again: it goes on, and Ctrl-C keeps what it has done."""
    table, out = tmp_path / "plants.csv", tmp_path / "plants.diglm"
    table.write_text("\n".join([HEADER, *rows(400)]) + "\n")
    out.write_text("earlier")
    # States are kept more often than for people, who have more rows.
    often = "import sys; from diglm.cli.work import training; training.SAVE_EVERY = 250;"
    often += "from diglm.cli.app import main; main(sys.argv[1:])"
    words = ["train", table, "--target", "kind", "--out", out, "--flow", "linear", "-q"]
    words += ["--epochs", "160", "--set", "patience=160", "--set", "batch_size=8"]
    run = tmp_path / "plants.diglm.run"
    first = begin(*words, code=often)
    wait_for(lambda: states(run), first)
    first.kill()
    first.wait()
    assert out.read_text() == "earlier"
    kept = states(run)
    second = begin(*words, code=often)
    wait_for(lambda: states(run) - kept, second)
    second.send_signal(signal.SIGINT)
    _, said = second.communicate(timeout=300)
    assert second.returncode == 130 and out.read_text() == "earlier", said
    assert f"the run is kept in {run}" in said and "hint: to go on, the same again: diglm" in said
    assert max(states(run)) > max(kept)  # it went on from where the killed one was


def test_an_interrupt_before_anything_is_kept_says_how_to_go_on(tmp_path):
    before = signal.getsignal(signal.SIGINT)
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

"""Latency and rows a second of the service, beside a naive endpoint; and a soak with reloads.

    python benchmarks/serving.py [--out results/serving.json] [--seconds 8] [--rounds 3]
    python benchmarks/serving.py --soak 600 [--out results/serving_soak.json]

One client process asks about single rows, over the loopback and by 1, 16 and 64 connections that
are kept open; each connection asks again as soon as it is answered. Service and naive endpoint
(`serving_servers.py`) are two processes that take turns, in the same run; the other one idles.
A default classifier of ten columns, numbers and categories; rows of the load test have no gaps.

The soak asks by 64 connections for as long as it is told, rows with and without gaps, while the
file of the model is replaced every few seconds by that of another one. Every answer is compared
with those of both models offline, and the memory of the service is looked at all the while.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from diglm import HybridClassifier
from diglm.report.results import write_result

CLIENTS = (1, 16, 64)
RELOAD_SECONDS = 5.0
SERVERS = Path(__file__).with_name("serving_servers.py")
Check = Callable[[int, dict], bool]


def rows(n: int, seed: int, gaps: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """Eight numbers, a whole number and a category; and two classes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"c{i}": rng.normal(size=n) for i in range(8)})
    X["level"], X["count"] = rng.choice(["a", "b", "c"], n), rng.integers(0, 20, n)
    if gaps:
        X.loc[rng.random(n) < 0.1, "c1"] = np.nan
    score = X["c0"] + X["c2"] * X["c3"] + X["count"] / 10 + rng.normal(size=n)
    return X, np.where(score > 1, "yes", "no")


def bodies(X: pd.DataFrame) -> list[bytes]:
    """One request for each row."""
    records = X.astype(object).where(X.notna(), None).to_dict(orient="records")
    return [json.dumps({"records": [record]}).encode() for record in records]


@contextmanager
def server(kind: str, model: Path) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and process number. It logs to a file."""
    log = model.with_name(f"{kind}.log")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with open(log, "w") as file:
        command = [sys.executable, str(SERVERS), kind, str(port), str(model)]
        process = subprocess.Popen(command, stderr=file)
    try:
        end = time.monotonic() + 300
        while asyncio.run(status_of(port)) != 200:
            if process.poll() is not None or time.monotonic() > end:
                told = log.read_text()[-2_000:]
                raise SystemExit(f"The server {kind!r} did not become ready:\n{told}")
            time.sleep(0.2)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


async def status_of(port: int) -> int:
    """What /ready says; 0 while nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0
    writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def ask_for(
    port: int, n_clients: int, seconds: float, asked: list[bytes], check: Check | None = None
) -> tuple[list[float], Counter]:
    """Latencies of answers with status 200, and how often each status came."""
    latencies: list[float] = []
    counts: Counter = Counter()
    end = time.perf_counter() + seconds

    async def client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        i = first
        while (since := time.perf_counter()) < end:
            i = (i + n_clients) % len(asked)
            body = asked[i]
            head = b"POST /assess HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body))
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            content = json.loads(await reader.readexactly(length))
            status = int(answer.split(None, 2)[1])
            counts[status] += 1
            if status == 200:
                latencies.append(time.perf_counter() - since)
                if check is not None and not check(i, content):
                    counts["wrong"] += 1
        writer.close()

    await asyncio.gather(*(client(i) for i in range(n_clients)))
    return latencies, counts


def load(options: argparse.Namespace, folder: Path) -> dict:
    """Latencies and rates of both servers, in turns."""
    path = folder / "model.diglm"
    HybridClassifier(random_state=0, verbose=False).fit(*rows(2_000, 0, True)).save(path)
    asked = bodies(rows(500, 1, False)[0])
    found: dict[str, dict] = {f"{n}": {"ours": [], "naive": []} for n in CLIENTS}
    with server("ours", path) as ours, server("naive", path) as naive:
        servers = {"ours": ours, "naive": naive}
        for port, _ in servers.values():
            asyncio.run(ask_for(port, 16, 2.0, asked))  # warm
        for _ in range(options.rounds):
            for n in CLIENTS:
                for name, (port, pid) in servers.items():
                    used = processor_seconds(pid)
                    taken, counts = asyncio.run(ask_for(port, n, options.seconds, asked))
                    if set(counts) != {200}:
                        raise SystemExit(f"{name} answered {dict(counts)}")
                    found[f"{n}"][name].append(
                        {
                            "rows_a_second": len(taken) / options.seconds,
                            "p50_ms": 1e3 * float(np.quantile(taken, 0.5)),
                            "p99_ms": 1e3 * float(np.quantile(taken, 0.99)),
                            "cpu_ms_a_row": 1e3 * (processor_seconds(pid) - used) / len(taken),
                        }
                    )
    return {n: summary(by_server) for n, by_server in found.items()}


def summary(by_server: dict[str, list[dict[str, float]]]) -> dict:
    """Medians over the rounds, and the ratio of rates within them."""
    medians = {
        name: {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
        for name, rounds in by_server.items()
    }
    pairs = zip(by_server["ours"], by_server["naive"], strict=True)
    ratios = [a["rows_a_second"] / b["rows_a_second"] for a, b in pairs]
    return medians | {"times_naive": statistics.median(ratios), "times_naive_low": min(ratios)}


def soak(options: argparse.Namespace, folder: Path) -> dict:
    """Answers, reloads and memory over a long time at saturation."""
    X, _ = rows(300, 1, True)
    asked, offline = bodies(X), []
    for seed in (0, 1):
        model = HybridClassifier(random_state=seed, verbose=False).fit(*rows(2_000, seed, True))
        model.save(folder / f"{seed}.diglm")
        offline.append(model.assess(X))
    path = folder / "model.diglm"
    shutil.copy(folder / "0.diglm", path)
    expected = [{name: table[name].tolist() for name in table} for table in offline]
    last = [0]

    def right(i: int, content: dict) -> bool:
        answers = {name: column[0] for name, column in content["answers"].items()}
        same = [{name: table[name][i] for name in table} == answers for table in expected]
        last[0] += any(same)
        return any(same)

    memory: list[tuple[float, float]] = []

    async def run(port: int, pid: int) -> Counter:
        asking = asyncio.create_task(ask_for(port, 64, options.soak, asked, right))
        since, n_reloads = time.perf_counter(), 0
        while not asking.done():
            await asyncio.sleep(1.0)
            now = time.perf_counter() - since
            memory.append((now, resident(pid)))
            if now > (n_reloads + 1) * RELOAD_SECONDS:
                n_reloads += 1
                await asyncio.to_thread(replace, folder / f"{n_reloads % 2}.diglm", path)
        latencies, counts = await asking
        return counts | {"reloads": n_reloads, "rows_a_second": int(len(latencies) / options.soak)}

    with server("ours", path) as (port, pid):
        counts = asyncio.run(run(port, pid))
    times, sizes = np.array(memory).T
    later = times > times[-1] / 3
    slope = float(np.polyfit(times[later], sizes[later], 1)[0]) if later.sum() > 2 else 0.0
    return {str(key): value for key, value in counts.items()} | {
        "memory_mb": {"at_a_third": float(sizes[later][0]), "at_the_end": float(sizes[-1])},
        "memory_mb_an_hour": 3600 * slope,
        "bitwise_equal": last[0],
    }


def replace(new: Path, path: Path) -> None:
    """Put another file in place of one, in one step."""
    beside = path.with_suffix(".new")
    shutil.copy(new, beside)
    os.replace(beside, path)


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far: what else runs on the machine does not change it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Megabytes that a process holds."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, default=0.0, help="seconds; instead of the load test")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = (soak if options.soak else load)(options, Path(folder))
    if options.soak:
        Console().print_json(json.dumps(found))
    else:
        names = ("rows/s", "p50 ms", "p99 ms", "cpu ms a row")
        table = Table("clients", *names, *(f"naive {name}" for name in names), "times")
        for n, one in found.items():
            numbers = [one[name][key] for name in ("ours", "naive") for key in one["ours"]]
            table.add_row(n, *(f"{x:.4g}" for x in numbers), f"{one['times_naive']:.1f}")
        Console(width=120).print(table)
    out = options.out or ("results/serving_soak.json" if options.soak else "results/serving.json")
    config = {name: value for name, value in vars(options).items() if name != "out"}
    seconds = time.perf_counter() - started
    write_result(out, config=config, seed=0, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()

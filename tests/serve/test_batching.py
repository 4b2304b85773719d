"""Works of one key are computed together, in order, and nobody waits in vain."""

import asyncio
import threading

import pytest

from diglm.serve.batching import Batcher, Work
from diglm.serve.errors import Refused


class Recorder:
    """Doubles numbers; remembers what came together, and stands still until it is let go."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, payloads):
        self.go.wait(5)
        self.batches.append(list(payloads))
        return [ValueError(f"{p} is odd") if p % 2 else 2 * p for p in payloads]


def run(scenario, **settings):
    settings = {"together": 100, "queued": 1000, "seconds": 5.0} | settings
    batcher = Batcher("test", **settings)
    batcher.start()
    try:
        return asyncio.run(scenario(batcher))
    finally:
        batcher.close(5)


async def submitted(batcher, works):
    tasks = [asyncio.create_task(batcher.submit(work)) for work in works]
    await asyncio.sleep(0.05)
    return tasks


def test_what_waits_is_computed_together_and_answered_apart():
    record = Recorder()

    async def scenario(batcher):
        first = await submitted(batcher, [Work(0, 1, record, "a")])  # keeps the thread busy
        rest = await submitted(batcher, [Work(n, 1, record, "a") for n in (2, 4, 6)])
        record.go.set()
        return await asyncio.gather(*first, *rest)

    assert run(scenario) == [0, 4, 8, 12]
    assert record.batches == [[0], [2, 4, 6]]


def test_other_keys_and_works_without_one_are_computed_apart():
    record = Recorder()

    async def scenario(batcher):
        first = await submitted(batcher, [Work(0, 1, record, "a")])
        works = [Work(n, 1, record, key) for n, key in ((2, "b"), (4, None), (6, "b"), (8, None))]
        rest = await submitted(batcher, works)
        record.go.set()
        return await asyncio.gather(*first, *rest)

    assert run(scenario) == [0, 4, 8, 12, 16]
    assert record.batches == [[0], [2, 6], [4], [8]]


def test_a_batch_has_at_most_so_many_rows():
    record = Recorder()

    async def scenario(batcher):
        first = await submitted(batcher, [Work(0, 1, record, "a")])
        rest = await submitted(batcher, [Work(2 * n, 4, record, "a") for n in range(5)])
        record.go.set()
        return await asyncio.gather(*first, *rest)

    run(scenario, together=10)
    assert record.batches == [[0], [0, 2], [4, 6], [8]]


def test_an_error_is_that_of_its_sender():
    record = Recorder()
    record.go.set()

    async def scenario(batcher):
        works = [Work(n, 1, record, "a") for n in (2, 3, 4)]
        return await asyncio.gather(
            *(batcher.submit(work) for work in works), return_exceptions=True
        )

    found = run(scenario)
    assert found[0] == 4 and found[2] == 8
    assert isinstance(found[1], ValueError)


def test_a_computation_that_fails_does_not_end_the_thread():
    def fails(payloads):
        raise RuntimeError("broken")

    async def scenario(batcher):
        with pytest.raises(RuntimeError, match="broken"):
            await batcher.submit(Work(1, 1, fails))
        return await batcher.submit(Work(1, 1, lambda payloads: ["fine"]))

    assert run(scenario) == "fine"


def test_a_full_queue_turns_requests_away_and_says_when_to_come_back():
    record = Recorder()

    async def scenario(batcher):
        tasks = await submitted(batcher, [Work(0, 5, record, "a")])  # under way, not waiting
        tasks += await submitted(batcher, [Work(2, 8, record, "a")])
        with pytest.raises(Refused) as refused:
            await batcher.submit(Work(4, 8, record, "a"))
        record.go.set()
        await asyncio.gather(*tasks)
        assert await batcher.submit(Work(4, 8, record, "a")) == 8  # there is room again
        return refused.value

    refused = run(scenario, queued=10)
    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) >= 1


def test_who_waits_too_long_is_told_and_not_computed():
    record = Recorder()

    async def scenario(batcher):
        tasks = await submitted(batcher, [Work(0, 1, record, "a")])
        tasks += await submitted(batcher, [Work(2, 1, record, "b")])
        found = await asyncio.gather(*tasks, return_exceptions=True)
        record.go.set()
        return found, await batcher.submit(Work(6, 1, record, "a"))

    (first, second), third = run(scenario, seconds=0.2)
    assert first.status == second.status == 503
    assert third == 12
    assert record.batches == [[0], [6]]


def test_closing_answers_what_waits_and_takes_nothing_more():
    record = Recorder()

    async def scenario(batcher):
        tasks = await submitted(batcher, [Work(0, 1, record, "a"), Work(2, 1, record, "b")])
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        await asyncio.sleep(0.05)
        with pytest.raises(Refused, match="stopping"):
            await batcher.submit(Work(4, 1, record, "a"))
        record.go.set()
        await closing
        return await asyncio.gather(*tasks)

    assert run(scenario) == [0, 4]

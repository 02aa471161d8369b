"""Cost of the client to a model server: against a stub on loopback with 50 ms latency, compared with openai's `create`.

The stub is a separate process. Requests are whole proposals (taxonomy, schema, conversation); answers are checked.
The figure includes the name, length and check of every request, but not the database.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from saferec_builder import llm
from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing import model_answers, prompting as propose
from tests.bench.figures import figure

LATENCY = 0.05
STUB = """
import asyncio, json, sys, uvloop
latency = float(sys.argv[1])
def answer(content):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    usage = {"prompt_tokens": 1900, "completion_tokens": 30, "total_tokens": 1930}
    made = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    body = json.dumps(made).encode()
    return b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
FINE, PROBED = answer('{"claims": []}'), answer('{"word": "zephyr-42"}')
class Stub(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        head = self.data.find(b"\\r\\n\\r\\n")
        if head < 0:
            return
        size = int(self.data[:head].lower().split(b"content-length:")[1].split(b"\\r\\n")[0])
        if len(self.data) >= head + 4 + size:
            said = PROBED if b"zephyr-42" in self.data else FINE
            self.data = b""
            asyncio.get_running_loop().call_later(latency, self.transport.write, said)
async def main():
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
uvloop.run(main())
"""


@contextmanager
def stub(latency: float = LATENCY) -> Iterator[str]:
    command = [sys.executable, "-c", STUB, str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def bodies(many: int) -> Iterator[dict[str, Any]]:
    taxonomy = traits.load()
    for n in range(many):
        asks = f"Number {n}: something quiet, please, I slept badly. " * 4
        turns = (("seeker", asks), ("recommender", "Of course. " * 30))
        yield propose.build_request(propose.Subject("sensitivity", str(n), "", turns), taxonomy)


async def ours(url: str, many: int, at_once: int) -> None:
    taxonomy, seen = traits.load(), 0
    server = llm.Server("m", url, concurrency=at_once)
    check = lambda content: model_answers.off_schema(content, taxonomy)  # noqa: E731
    answers = SimpleNamespace(get=lambda _: None, put=lambda _: None, check=check)
    async for _, reply in llm.replies(server, bodies(many), answers, llm.Budget()):
        assert reply.error is None, reply
        seen += 1
    assert seen == many


async def create(url: str, many: int, at_once: int) -> None:
    """The same requests through `chat.completions.create` of openai's client, with its defaults."""
    import openai

    taxonomy, todo = traits.load(), bodies(many)
    async with openai.AsyncOpenAI(api_key="unused", base_url=url, timeout=600) as client:

        async def worker() -> None:
            for body in todo:
                completion = await client.chat.completions.create(
                    model="m", temperature=0.0, max_completion_tokens=2_000, **body
                )
                assert model_answers.off_schema(completion.choices[0].message.content or "", taxonomy) is None

        await asyncio.gather(*(worker() for _ in range(at_once)))


def spent(work: Any) -> tuple[float, float]:
    """Returns (wall, CPU) seconds of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    llm.run(work)
    return time.perf_counter() - wall, time.process_time() - cpu


def memory(many: int) -> float:
    """Peak MB of a process that sends so many requests, with 256 in flight."""
    code = f"""
from tests.bench.bench_propose import *
import resource
with stub(0.0) as url:
    llm.run(ours(url, {many}, 256))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    small, large = memory(20_000), memory(200_000)  # first: a process inherits the memory count of its parent
    walls, mine, ratios = [], [], []
    with stub() as url:
        llm.run(ours(url, 200, 64))  # warm
        for _ in range(5):  # in turns, because the speed of the machine changes while this runs
            walls.append(spent(ours(url, 6_000, 64))[0] / 6_000)
            mine.append(spent(ours(url, 2_000, 512))[1] / 2_000)
            ratios.append(spent(create(url, 2_000, 512))[1] / 2_000 / mine[-1])
    figure("propose.stub_64_of_ideal", LATENCY / 64 / statistics.median(walls), "ratio", ">= 0.7")
    figure("propose.cpu_ms_a_request", statistics.median(mine) * 1_000, "ms", "none")
    figure("propose.stub_512_over_create", statistics.median(ratios), "ratio", ">= 3")
    figure("propose.memory_200k_requests", large, "MB", "< 400")
    figure("propose.memory_200k_over_20k", large / small, "ratio", "flat: about 1")

"""A server as its clients see it: start to first token, and streams of many clients at once. For bench_cpu.py."""

import asyncio
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import time

WORDS = "river stone amber cloud forest engine paper winter signal harbor copper meadow lantern orbit velvet".split()
MODEL_NAME = "m"  # a server may take any or be told that it has this one
PROMPT_WORDS = 60  # about 105 tokens with the template
START_SECONDS = 120


def prompt(client):
    """Texts that differ from their first word on, so that no cache of prefixes helps."""
    words = (WORDS[(client * 7 + i * (client + 3)) % len(WORDS)] for i in range(PROMPT_WORDS))
    return f"Client {client}. Tell a long story that uses these words: " + " ".join(words)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def stream_answer(port, client, tokens):
    """The times at which an answer's pieces came, the time it was asked for, and how many tokens the server counted."""
    body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": prompt(client)}], "max_tokens": tokens}
    body |= {"stream": True, "temperature": 0, "ignore_eos": True, "stream_options": {"include_usage": True}}
    raw = json.dumps(body).encode()
    asked = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = ["POST /v1/chat/completions HTTP/1.1", "Host: x", "Connection: close", "Content-Type: application/json"]
    head += [f"Content-Length: {len(raw)}", "", ""]
    writer.write("\r\n".join(head).encode() + raw)
    status = (await reader.readline()).decode().strip()
    if " 200 " not in f"{status} ":
        raise ConnectionError(f"it answered {status or 'nothing'}")
    times, counted = [], 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("usage"):
            counted = event["usage"]["completion_tokens"]
        if any(choice["delta"].get("content") for choice in event.get("choices", [])):
            times.append(time.perf_counter())
    writer.close()
    if not times:
        raise ConnectionError("a stream ended without a token")
    return {"asked": asked, "times": times, "tokens": counted or len(times)}


async def stream_all(port, clients, tokens, first_client):
    return await asyncio.gather(*(stream_answer(port, first_client + i, tokens) for i in range(clients)))


def spread(answers):
    """In all tokens a second, the 99th percentile of gaps between tokens, the median time to a first token."""
    gaps = sorted(b - a for answer in answers for a, b in zip(answer["times"], answer["times"][1:]))
    duration = max(answer["times"][-1] for answer in answers) - min(answer["asked"] for answer in answers)
    return {
        "tokens_s": sum(answer["tokens"] for answer in answers) / duration,
        "gap_p99_s": gaps[int(len(gaps) * 0.99)],
        "first_token_s": statistics.median(answer["times"][0] - answer["asked"] for answer in answers),
    }


def is_healthy(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def wait_healthy(process, port):
    end = time.monotonic() + START_SECONDS
    while not is_healthy(port):
        if process.poll() is not None:
            raise ConnectionError(f"the server ended with exit code {process.returncode} before it answered")
        if time.monotonic() > end:
            raise ConnectionError(f"the server did not answer within {START_SECONDS} s")
        time.sleep(0.005)


def peak_bytes(process):
    with open(f"/proc/{process.pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return 0


def measure_server(command, log, clients=32, tokens=64, start=0):
    """Runs `command` with --port PORT: a stream alone, then all clients. ConnectionError says what failed."""
    port = free_port()
    begun = time.perf_counter()
    with open(log, "w") as output:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_healthy(process, port)
        alone = asyncio.run(stream_all(port, 1, 16, start + 900))[0]
        result = spread(asyncio.run(stream_all(port, clients, tokens, start)))
        result |= {"start_s": alone["times"][0] - begun, "peak_bytes": peak_bytes(process)}
    except OSError as error:
        raise ConnectionError(f"{os.path.basename(command[0])}: {error} ({log})") from error
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return result

"""A tiny engine for histories that a real one cannot play. `python toy_engine.py --port N [flags]`; standard library only.

It answers /health, /v1/completions, /metrics and /v1/chat/completions, forks a worker, and misbehaves as told.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def options(words: list[str] | None = None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--served-model-name", nargs="*", default=["m"])
    parser.add_argument("--slow-start", type=float, default=0.0, help="seconds before it listens")
    parser.add_argument("--exit-at-start", type=int, help="end with this code instead of listening")
    parser.add_argument("--say", default="", help="a line for the log before anything else")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--worker", action="store_true", help="fork a worker that leaves the group and outlives its parent")
    parser.add_argument("--core", action="store_true", help="fork a process without a mark that stays in the group, as vLLM's core does")
    parser.add_argument("--wedge-file", help="while this file exists, generations hang and /health stays green")
    parser.add_argument("--answer", default=" eight", help="what every completion says")
    parser.add_argument("--compile", action="store_true", help="leave a file where compiled graphs are kept")
    parser.add_argument("--compile-kib", type=int, default=0, help="how large that file is")
    parser.add_argument("--generate-s", type=float, default=0.0, help="seconds that a generation takes")
    return parser.parse_args(words)


class Toy:
    """State that requests share."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags, self.running, self.tokens, self.lock = flags, 0, 0, threading.Lock()

    def generate(self) -> str:
        """One generation, which hangs while wedged."""
        with self.lock:
            self.running += 1
        try:
            time.sleep(self.flags.generate_s)
            while self.flags.wedge_file and os.path.exists(self.flags.wedge_file):  # noqa: PTH110 - pathlib costs more than this program
                time.sleep(0.05)
            with self.lock:
                self.tokens += 1
            return str(self.flags.answer)
        finally:
            with self.lock:
                self.running -= 1

    def metrics(self) -> str:
        """vLLM's names of the counters that matter."""
        label = '{engine="0",model_name="m"}'
        return (f"vllm:num_requests_running{label} {self.running}.0\nvllm:num_requests_waiting{label} 0.0\n"
                f"vllm:kv_cache_usage_perc{label} 0.0\nvllm:generation_tokens_total{label} {self.tokens}.0\n"
                f"vllm:prompt_tokens_total{label} {self.tokens * 7}.0\n")  # fmt: skip


def handler(toy: Toy) -> type[BaseHTTPRequestHandler]:
    """The routes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: Any) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            """Health, metrics, models."""
            if self.path == "/metrics":
                self.answer(toy.metrics().encode(), "text/plain")
            elif self.path == "/v1/models":
                self.answer(json.dumps({"object": "list", "data": [{"id": n, "max_model_len": 4096} for n in toy.flags.served_model_name]}).encode())
            else:
                self.answer(b"")

        def do_POST(self) -> None:
            """Completions of both kinds."""
            asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if asked.get("stream"):
                self.stream(toy.generate())
                return
            text = toy.generate()
            choice = {"index": 0, "text": text, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
            self.answer(json.dumps({"id": "x", "object": "completion", "model": "m", "choices": [choice], "usage": usage}).encode())

        def stream(self, text: str) -> None:
            """One streamed answer, whose connection ends with it."""
            chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
                                            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                                            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}}]  # fmt: skip
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("connection", "close")
            self.end_headers()
            lines = [json.dumps({"id": "x", "object": "chat.completion.chunk", "model": "m", **chunk}) for chunk in chunks]
            self.wfile.write("".join(f"data: {line}\n\n" for line in (*lines, "[DONE]")).encode())

        def answer(self, body: bytes, kind: str = "application/json") -> None:
            """One answer of known length."""
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def compiled(root: str, kib: int) -> None:
    """Compile what is not there, and say which it was."""
    graph = Path(root, "torch_compile_cache", "graph.py")
    print(f"compiled graphs {'found' if graph.exists() else 'made'}", flush=True)
    try:
        graph.parent.mkdir(parents=True, exist_ok=True)
        graph.write_bytes(os.urandom(kib << 10) if kib else b"graph")
    except OSError as error:
        print(f"compiled graphs are not kept: {error}", flush=True)


def main() -> None:
    """One life."""
    flags = options()
    if flags.say:
        print(flags.say, flush=True)
    if flags.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if flags.worker:
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print(f"worker {worker.pid}", flush=True)
    if flags.core:
        core = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={})
        print(f"core {core.pid}", flush=True)
    if flags.exit_at_start is not None:
        sys.exit(flags.exit_at_start)
    if flags.compile:
        compiled(os.environ["VLLM_CACHE_ROOT"], flags.compile_kib)
    time.sleep(flags.slow_start)
    server = ThreadingHTTPServer((flags.host, flags.port), handler(Toy(flags)))
    server.daemon_threads = True
    print("Application startup complete.", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

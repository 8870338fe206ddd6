"""Reads streams with the official `anthropic` package, in the Python that has it: `python sdk_reader.py FILE ...`.

Prints one JSON object a file: the final message, the text pieces, the exception's name where the parser raised one.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anthropic


class Server(HTTPServer):
    """Answers each request with the same stream, cut into small writes."""

    stream = b""


class Answer(BaseHTTPRequestHandler):
    """One answer."""

    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.end_headers()
        for i in range(0, len(self.server.stream), 37):
            self.wfile.write(self.server.stream[i : i + 37])

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def read(server: Server, stream: bytes) -> dict[str, Any]:
    """What a user of the package gets from the bytes."""
    server.stream = stream
    client = anthropic.Anthropic(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}", max_retries=0)
    kinds = []
    try:
        with client.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}]) as events:
            for event in events:
                kinds.append(event.type)
            message = events.get_final_message()
    except anthropic.APIStatusError as error:
        return {"error": type(error).__name__, "body": error.body, "kinds": kinds}
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {error}", "kinds": kinds}
    return {"message": message.model_dump(mode="json"), "kinds": kinds}


if __name__ == "__main__":
    with Server(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in sys.argv[1:]:
            print(json.dumps(read(server, Path(name).read_bytes())))
        server.shutdown()

"""`python sdk_client.py PORT MODEL`: Anthropic's own client, which asks until standard input closes; a JSON line for each answer.

Run by an environment that has the `anthropic` package. It repeats by itself what it was told to repeat, as every user's client does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any


def main() -> None:
    """Ask until told to stop."""
    import importlib

    anthropic: Any = importlib.import_module("anthropic")
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{sys.argv[1]}", api_key="k3y-for-tests", timeout=400.0)
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    while not ended.is_set():
        began = time.monotonic()
        try:
            with client.messages.stream(model=sys.argv[2], max_tokens=8, messages=[{"role": "user", "content": "hi"}]) as stream:
                words = "" if stream.get_final_message().stop_reason else "no stop reason"
        except Exception as error:  # whatever a user would see
            words = f"{type(error).__name__}: {error}"
        print(json.dumps({"seconds": round(time.monotonic() - began, 3), "error": words[:300]}), flush=True)
        time.sleep(0.3)


if __name__ == "__main__":
    main()

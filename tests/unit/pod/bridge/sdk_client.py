"""Asks bridges with the official `anthropic` package, in the Python that has it: `python sdk_client.py JOBS.json`.

A job has `url`, `key`, `call` (stream, create, count_tokens), `body`, `query`, `headers`. Prints one JSON object a job: the message or
the count, or the error's name, status and body, or what crashed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anthropic


def told(job: dict[str, Any]) -> dict[str, Any]:
    """What a user of the package gets."""
    client = anthropic.Anthropic(api_key=job["key"], base_url=job["url"], max_retries=0, timeout=30)
    # What the package has no word for goes as it stands.
    words: dict[str, Any] = {"messages": job["body"].get("messages"), "model": job["body"].get("model"), "extra_body": job["body"], "extra_query": job["query"],
                             "extra_headers": job["headers"]}  # fmt: skip
    try:
        if job["call"] == "count_tokens":
            return {"input_tokens": client.messages.count_tokens(**words).input_tokens}
        words["max_tokens"] = job["body"].get("max_tokens")
        if job["call"] == "create":
            return {"message": client.messages.create(**words).model_dump(mode="json")}
        with client.messages.stream(**words) as events:
            kinds = [event.type for event in events]
            return {"message": events.get_final_message().model_dump(mode="json"), "kinds": kinds}
    except anthropic.APIStatusError as error:
        return {"error": type(error).__name__, "status": error.status_code, "body": error.body, "request_id": error.request_id}
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for job in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(told(job)), flush=True)

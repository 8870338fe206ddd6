"""Ending the spend: stop the pod at its provider when nothing in it will serve again by itself."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Protocol

from pod import __version__

# Bounds one call; the provider answers in a second or two.
CALL_S = 30.0
TRIES = 3
API_ENV, DEFAULT_API = "PODWRIGHT_RUNPOD_API", "https://api.runpod.io"


class Spend(Protocol):
    """How the rent of this pod is ended."""

    def end(self, reason: str) -> tuple[bool, str]:
        """Whether it worked, and a sentence for the journal. Blocks; never raises."""


class Held:
    """Nobody can be told: the container stays open, so that its fault can be read and a publication can heal it."""

    def end(self, reason: str) -> tuple[bool, str]:
        """Says what is missing."""
        return False, "nobody can be told to stop this pod (RUNPOD_API_KEY and RUNPOD_POD_ID are not set): stop or delete it by hand"


class RunPod:
    """RunPod's REST v2: `POST /v2/pods/{id}/action`. The key is the pod's own secret and never shown."""

    def __init__(self, api: str, pod_id: str, key: str) -> None:
        self._api, self._pod_id, self._key = api.rstrip("/"), pod_id, key

    def end(self, reason: str) -> tuple[bool, str]:
        """Ask for the stop, again after a failure that may pass."""
        problem = ""
        for _ in range(TRIES):
            request = urllib.request.Request(
                f"{self._api}/v2/pods/{self._pod_id}/action", json.dumps({"action": "stop"}).encode(), method="POST",
                headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", "User-Agent": f"podwright-pod/{__version__}"},
            )  # fmt: skip
            try:
                with urllib.request.urlopen(request, timeout=CALL_S) as answer:
                    return True, f"the provider was told to stop pod {self._pod_id} and answered {answer.status}"
            except urllib.error.HTTPError as error:
                problem = f"the provider answered {error.code}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, ValueError) as error:
                problem = f"the provider cannot be reached: {type(error).__name__}"
        return False, f"pod {self._pod_id} could not be stopped: {problem}; stop it by hand"


def spend_of(environ: Mapping[str, str]) -> Spend:
    """How the rent of this pod is ended, from what its environment holds."""
    pod_id, key = environ.get("RUNPOD_POD_ID", "").strip(), environ.get("RUNPOD_API_KEY", "").strip()
    if not pod_id.isalnum() or not key:
        return Held()
    return RunPod(environ.get(API_ENV) or DEFAULT_API, pod_id, key)

"""The exceptions of this layer: every one says what failed, why that matters and what to do.

DeployError
├── Unreachable          no connection, or no answer in time
│   ├── ServerBusy       429 or 5xx after every retry
│   └── NothingReached   a whole command found nobody to talk to
├── NotFound             no such repository, commit, file or image
├── Denied               it exists, or may exist, for somebody else: private, gated, or a refused token
├── BadAnswer            an answer that cannot be trusted, so nothing of it is used
├── BadReference         not the name of an image
├── LockNotWritten       the lock's file could not be replaced
├── LocalRunFailed       a profile cannot be served on this machine, or did not come up
├── DockerUnavailable    no Docker engine answers
└── ImageNotBuilt        there is nothing to build, or the engine refused the build as a whole
    └── StepFailed       one step of the Dockerfile failed
"""

from __future__ import annotations


class DeployError(Exception):
    """Something outside this machine, or the way to it, failed. Printed like a diagnostic, without a place in a spec.

    `code` names it in docs/deploy.md; "" where that page says nothing about it.
    """

    code = ""

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.why, self.fix = what, why, fix

    def formatted(self) -> str:
        """The failure as text, in the form that findings have."""
        return f"{f'{self.code} ' if self.code else ''}error: {self.what}\n  why: {_indented(self.why)}\n  fix: {_indented(self.fix)}"

    def to_json(self) -> dict[str, object]:
        """A flat mapping with `failure` (the class's name), `code` where there is one, `what`, `why` and `fix`."""
        return {"failure": type(self).__name__, **({"code": self.code} if self.code else {}), "what": self.what, "why": self.why, "fix": self.fix}


class Unreachable(DeployError):
    """No connection to a server, or no answer in time."""


class ServerBusy(Unreachable):
    """A server kept answering 429 or 5xx."""


class NothingReached(Unreachable):
    """No server that the command needs could be reached."""


class NotFound(DeployError):
    """The server answers that there is no such thing."""


class Denied(DeployError):
    """The server answers that this account, or nobody without one, may not see it."""


class BadAnswer(DeployError):
    """The server's answer is not what its protocol says."""


class BadReference(DeployError):
    """A text that is not the name of an image."""


class LockNotWritten(DeployError):
    """The lock's file could not be replaced; the old one is untouched."""


class LocalRunFailed(DeployError):
    """The profile cannot be served on this machine, or did not come up on it."""


class DockerUnavailable(DeployError):
    """No Docker engine answers."""


class ImageNotBuilt(DeployError):
    """The image could not be built."""


class StepFailed(ImageNotBuilt):
    """One step of the Dockerfile failed. `step` of `steps` counts from 1; `tail` holds the last lines that it printed."""

    def __init__(self, what: str, why: str, fix: str, *, step: int | None, steps: int | None, tail: tuple[str, ...]) -> None:
        super().__init__(what, why, fix)
        self.step, self.steps, self.tail = step, steps, tail

    def to_json(self) -> dict[str, object]:
        """As for every failure, with `step`, `steps` and `tail`."""
        return {**super().to_json(), "step": self.step, "steps": self.steps, "tail": list(self.tail)}


def _indented(text: str) -> str:
    return text.replace("\n", "\n       ")

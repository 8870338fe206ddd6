"""What can go wrong with a pod that was created, each with its cure; and whether another host would do better.

`elsewhere` says that the fault is the host's: the pod is terminated and another candidate is asked for. Everything else would go the
same way everywhere.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from compiler.deploy.failures import DeployError

if TYPE_CHECKING:
    from compiler.deploy.explainer import Explanation


@dataclasses.dataclass(frozen=True, slots=True)
class TroubleKind:
    """One way to fail. `why` and `fix` may use {profile} and {pod}."""

    code: str
    name: str
    elsewhere: bool
    why: str
    fix: str


def _kind(code: str, name: str, elsewhere: bool, why: str, fix: str) -> TroubleKind:
    return TroubleKind(code, name, elsewhere, why, fix)


CUDA_MISMATCH = _kind(
    "DPL040", "cuda-mismatch", True, "The engine's CUDA libraries do not start on an older driver, and a host's driver cannot be changed from a pod.",
    "Run the command again; a floor (deploy.cuda.minimum) or another data center widens the choice.",
)  # fmt: skip
STUCK = _kind(
    "DPL041", "stuck", True, "A pod that is not placed within minutes was seen to stay that way, and its GPU is paid for.",
    "Run the command again; name another data center if it happens twice.",
)  # fmt: skip
NO_GPU = _kind(
    "DPL042", "zero-gpus", True, "The host gave its GPUs to somebody else; a pod never moves by itself.",
    "Run `podwright deploy {profile}` again: it makes a new pod. The container disk of the old one is lost.",
)  # fmt: skip
SICK_HOST = _kind(
    "DPL043", "sick-host", True, "A GPU that the driver lists and CUDA cannot use is never repaired from inside the pod.",
    "Run the command again; podwright asks that place last for six hours. Tell the provider's support the pod's id {pod}.",
)  # fmt: skip
EXITED = _kind(
    "DPL044", "exited", False, "A container that ends during its start will end again. An empty balance stops pods, too.",
    "Read the last lines above (`podwright logs {profile}` while the pod exists; --keep keeps it), and the balance in the console.",
)  # fmt: skip
PULL_DENIED = _kind(
    "DPL045", "pull-denied", False, "A private image needs a registry credential at the provider, and its token must be allowed to read packages.",
    "Create the credential at the provider and name its id in deploy.registry_auth, or make the image public.",
)  # fmt: skip
PULL_FAILED = _kind(
    "DPL046", "pull-failed", False, "Without its image the pod waits and is paid for.",
    "Check the image's name and digest (`podwright lock {profile}`), that it is for linux/amd64, and the registry's limits for anonymous pulls.",
)  # fmt: skip
RESTART_LOOP = _kind(
    "DPL047", "restart-loop", False, "The provider starts a container that ends again and again, and each start is paid for.",
    "Read the last lines above; `podwright deploy {profile} --keep` keeps the pod for a closer look.",
)  # fmt: skip
BOOT_FAILED = _kind("DPL048", "boot-failed", False, "The pod says itself that it cannot start.", "{fix}")
STALLED = _kind(
    "DPL049", "stalled", False, "A start that says nothing for that long was never seen to end well.",
    "Read the last lines above; `podwright deploy {profile} --keep` keeps the pod for a closer look.",
)  # fmt: skip
GONE = _kind(
    "DPL050", "gone", False, "Somebody terminated it, in the console or with the same key; or the balance ran out.",
    "Run `podwright deploy {profile}` to make a new one.",
)  # fmt: skip
PROOF_FAILED = _kind(
    "DPL051", "proof-failed", False, "An endpoint that answers is not yet one that serves.",
    "Read what was expected above; `podwright deploy {profile} --keep` keeps the pod, `podwright wait {profile}` proves again.",
)  # fmt: skip
TOO_DEAR = _kind(
    "DPL052", "too-dear", True, "Nothing above deploy.price_ceiling is rented; the price is known for certain only once the pod exists.",
    "Raise the ceiling in the profile, or take another card: `podwright stock {profile}`.",
)  # fmt: skip

KINDS = (CUDA_MISMATCH, STUCK, NO_GPU, SICK_HOST, EXITED, PULL_DENIED, PULL_FAILED, RESTART_LOOP, BOOT_FAILED, STALLED, GONE, PROOF_FAILED, TOO_DEAR)


# A person reads a dozen lines; the cause may stand far above them.
SHOWN_LINES = 12


class PodTrouble(DeployError):
    """A pod that will not serve. `lines` are the last of its log, oldest first: all that the explainer reads, and the last ones shown."""

    def __init__(self, kind: TroubleKind, what: str, *, profile: str, pod_id: str, fix: str = "", lines: tuple[str, ...] = ()) -> None:
        words = {"profile": profile, "pod": pod_id, "fix": fix or f"Read the last lines above, and the pod's log with `podwright logs {profile}`."}
        super().__init__(what, kind.why.format(**words), kind.fix.format(**words))
        self.kind, self.lines, self.pod_id = kind, lines, pod_id
        self.code = kind.code

    def to_json(self) -> dict[str, object]:
        """As for every failure, with `kind`, `pod`, the last `lines` and their `explanation`."""
        told = {"kind": self.kind.name, "pod": self.pod_id, "lines": list(self.lines[-SHOWN_LINES:]), "explanation": self.explanation().to_json()}
        return {**super().to_json(), **told}

    def explanation(self) -> Explanation:
        """What the log and the failure's own words tell of the cause."""
        from compiler.deploy.explainer import explained

        return explained([*self.lines, self.what])

    def formatted(self) -> str:
        """The failure as text, with the last lines of the log in front and what explains them behind."""
        shown = "".join(f"  | {line}\n" for line in self.lines[-SHOWN_LINES:])
        causes = [c for c in self.explanation().causes if c.kind == "error" and c.code != self.code and not c.id.endswith("-says")]
        told = "".join(
            f"\n  cause: {c.cause}{f' ({c.code})' if c.code else ''}\n         {c.fix}" + (f"\n         in the specs: {', '.join(c.change)}" if c.change else "") for c in causes[:1]
        )  # fmt: skip
        return shown + super().formatted() + told

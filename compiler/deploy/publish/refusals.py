"""What publishing refuses; the codes are explained in docs/deploy.md.

DeployError
├── NotPublished      the profile publishes nowhere, or nothing was published yet
├── NoRepository      the repository does not exist
├── NoRights          the token may not write there, or is refused
├── Overtaken         somebody else published meanwhile
├── TooLarge          a file over a limit of the Hub or of the pods
├── NobodyKnows       the connection broke while the commit was made
├── KeyUnlikePods     pods would not trust what this key signs
├── EndpointBusy      the engine would be restarted under running requests
├── NeedsNewPod       no running pod can become that
├── WentBack          a pod did not take it over, or went back
├── StillWaiting      a pod has not taken it over in time
├── NothingGood       there is nothing to go back to
└── NoJournal         no pod of the profile mirrored a journal
"""

from __future__ import annotations

from compiler.deploy.failures import DeployError


class NotPublished(DeployError):
    """The profile publishes nowhere, or nothing was published yet."""

    code = "DPL060"


class NoRepository(DeployError):
    """The repository does not exist."""

    code = "DPL061"


class NoRights(DeployError):
    """The token may not write there, or is refused."""

    code = "DPL062"


class Overtaken(DeployError):
    """Somebody else published between our look and our commit."""

    code = "DPL063"


class TooLarge(DeployError):
    """A file is over a limit."""

    code = "DPL064"


class NobodyKnows(DeployError):
    """The connection broke while the commit was made, and the repository cannot be asked."""

    code = "DPL065"


class KeyUnlikePods(DeployError):
    """Pods made from the profile would not trust what this key signs."""

    code = "DPL066"


class EndpointBusy(DeployError):
    """The engine would be restarted under running requests."""

    code = "DPL067"


class NeedsNewPod(DeployError):
    """No running pod can become what would be published."""

    code = "DPL068"


class WentBack(DeployError):
    """A pod refused the publication, failed with it, or went back."""

    code = "DPL069"


class StillWaiting(DeployError):
    """A pod has not taken the publication over in time, or says nothing."""

    code = "DPL070"


class NothingGood(DeployError):
    """There is no earlier publication to go back to."""

    code = "DPL071"


class NoJournal(DeployError):
    """No pod of the profile mirrored a journal."""

    code = "DPL072"

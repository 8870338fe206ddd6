"""What deploy itself refuses, before or after it asked a provider; the codes are explained in docs/deploy.md."""

from __future__ import annotations

from compiler.deploy.failures import DeployError


class PodDiffers(DeployError):
    """The profile's pod was made from something else."""

    code = "DPL030"


class SeveralPods(DeployError):
    """More than one pod carries the profile's name."""

    code = "DPL031"


class SecretMissing(DeployError):
    """The provider has no secret of a name that the pod needs."""

    code = "DPL032"


class ImageNotFixed(DeployError):
    """The image cannot be pulled, or nobody knows which one it will be."""

    code = "DPL033"


class EndpointKeyMissing(DeployError):
    """The endpoint's key is not at hand, so that nothing could be proven."""

    code = "DPL034"


class NotAgreed(DeployError):
    """Nobody said yes."""

    code = "DPL035"


class NoPod(DeployError):
    """The profile has no pod."""

    code = "DPL036"


class StillBilling(DeployError):
    """A pod that should be gone could not be terminated, or nobody knows."""

    code = "DPL037"


class TemplateTaken(DeployError):
    """The template's name belongs to something else."""

    code = "DPL038"


class LimitReached(DeployError):
    """The pod's hours are over."""

    code = "DPL039"


class WrongTarget(DeployError):
    """The profile is not for this command's provider."""

    code = "DPL029"

"""What a provider can answer instead of what was asked for. Each class is one row of the retry table in docs/deploy.md.

ProviderError(DeployError)
├── KeyMissing        there is no key to ask with
├── KeyRefused        401: the key is wrong or was revoked
├── Forbidden         403: this account may not have that; another candidate may do
├── Unanswered        no connection, no name, no answer in time; a request may have arrived all the same
├── Intercepted       a page of somebody in between (captive portal, company proxy, Cloudflare), not the provider's answer
├── Garbled           the provider's answer broke off or is not JSON
├── Missing           404: there is no such thing (any more)
├── WrongState        409: not in this status
├── Invalid           422 and 413: the request itself is wrong; never sent again
├── Refused           400: no capacity for this candidate, or a rule of the provider's; the next candidate may do
├── NoMoney           402: the balance does not cover an hour
├── RateLimited       429: `retry_after_s` seconds of silence are asked for
├── ServerFailed      5xx: nobody knows whether it happened
├── Retired           410: this interface was switched off
└── Unsupported       this interface has no such thing
"""

from __future__ import annotations

from compiler.deploy.failures import DeployError


class ProviderError(DeployError):
    """An answer of a provider that is not the one asked for. `detail` is the provider's own sentence, without secrets."""

    code = "DPL000"
    why = "Nothing of this answer is used."
    fix = "Run the command again; with --verbose it shows each request."

    def __init__(self, what: str, *, detail: str = "", why: str = "", fix: str = "", status: int | None = None) -> None:
        super().__init__(what, why or self.why, fix or self.fix)
        self.detail, self.status = detail, status


class KeyMissing(ProviderError):
    """There is no key to ask with."""

    code = "DPL001"
    why = "The provider answers nobody without one."
    fix = "Create an API key in the provider's console and put it into RUNPOD_API_KEY."


class KeyRefused(ProviderError):
    """The provider does not take the key."""

    code = "DPL002"
    why = "Either it was mistyped or revoked, or it belongs to another account. Nothing was created."
    fix = "Compare RUNPOD_API_KEY with the key in the provider's console; create a new one there if in doubt."


class Forbidden(ProviderError):
    """The account or its key may not do that."""

    code = "DPL003"
    why = "The key lacks the right, or the account has no access to this kind of machine."
    fix = "Give the key read and write access to pods, templates and secrets in the provider's console."


class Unanswered(ProviderError):
    """No connection, or no answer in time."""

    code = "DPL004"
    why = "Without an answer nobody knows what exists and what it costs."
    fix = "Try again when the network is back; `podwright status` then says whether anything is running."


class Intercepted(ProviderError):
    """Something in between answered."""

    code = "DPL005"
    why = "The answer is not the provider's, so nothing in it can be trusted."
    fix = "Open the provider's address in a browser: a login page of the network, or a company proxy (HTTPS_PROXY), stands in between."


class Garbled(ProviderError):
    """An answer that broke off, or that is not what the interface says."""

    code = "DPL006"
    why = "Half an answer says nothing about the other half; a pod may exist."
    fix = "Run `podwright status`; then run the command again."


class Missing(ProviderError):
    """There is no such thing."""

    code = "DPL007"
    why = "It was deleted, or it belongs to another account."
    fix = "Run `podwright status`: it asks the provider what exists."


class WrongState(ProviderError):
    """The pod's status does not allow that."""

    code = "DPL008"
    why = "A pod can be stopped or restarted while it runs, started while it is stopped, and terminated at any time."
    fix = "Run `podwright status` and wait for the status that the action needs."


class Invalid(ProviderError):
    """The request is wrong, wherever it is sent."""

    code = "DPL009"
    why = "The same request would be refused again, so it is not sent again."
    fix = "Change what the message names in the profile; if it names a field that podwright made up, please report it."


class Refused(ProviderError):
    """No capacity for this candidate, or against a rule of the provider's."""

    code = "DPL010"
    why = "The provider uses one status for a full data center and for a request against its rules."
    fix = "Run `podwright stock PROFILE`; it shows where the card is to be had with this CUDA pin."


class NoMoney(ProviderError):
    """The balance does not cover the pod."""

    code = "DPL011"
    why = "A pod needs at least an hour's price on the account; no other candidate would be accepted either."
    fix = "Add credit in the provider's console, then run the same command."


class RateLimited(ProviderError):
    """Too many requests; the provider names a pause."""

    code = "DPL012"
    why = "The provider stops listening for a while when it is asked too often."
    fix = "Wait a minute; another program may use the same key."

    def __init__(self, what: str, *, retry_after_s: float, detail: str = "") -> None:
        super().__init__(what, detail=detail, status=429)
        self.retry_after_s = retry_after_s


class ServerFailed(ProviderError):
    """The provider failed. What was asked for may have happened."""

    code = "DPL013"
    why = "A failing server may have done what it was asked to do before it failed."
    fix = "Run `podwright status` in a minute; then run the command again."


class Retired(ProviderError):
    """The interface was switched off."""

    code = "DPL014"
    why = "RunPod announced the end of REST v1 for 15 November 2026 and of GraphQL for early 2027."
    fix = "Use REST v2: leave --transport out."


class Unsupported(ProviderError):
    """This interface of the provider cannot do that."""

    code = "DPL015"
    why = "Not every interface of a provider can do everything."
    fix = "Use REST v2: leave --transport out."

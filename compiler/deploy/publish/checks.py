"""What is looked at before anything is published: the signing key, and what the publish would do to those who use the endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pod.publication import PublicationError, public_keys

from compiler.deploy.publish.effect import Effect
from compiler.deploy.publish.followers import Forecast
from compiler.deploy.publish.refusals import EndpointBusy, KeyUnlikePods, NeedsNewPod, WentBack
from compiler.deploy.publish.release import When
from compiler.deploy.signing import SigningKey, key_path, load_key
from compiler.plan import Plan


def checked_key(plan: Plan, environ: Mapping[str, str]) -> SigningKey | None:
    """The key to sign with; None where the profile allows unsigned publications and there is no key.

    Raises SigningKeyError, or KeyUnlikePods where pods made from this profile would refuse what it signs.
    """
    path = key_path(environ)
    if plan.publish.allow_unsigned and not path.exists():
        return None
    key = load_key(path)
    value = next((v.value for v in (*plan.pod_env, *plan.engine.env) if v.name == plan.publish.public_key_env), None)
    try:
        trusted = public_keys(value or "")
    except PublicationError as error:
        raise KeyUnlikePods(
            f"{plan.publish.public_key_env} in the profile is no list of keys: {error}",
            "Pods refuse every publication while it is like that.",
            f"Set it to {key.public_text}, as `podwright keygen --show` prints it.",
        ) from None
    if key.public in trusted or (plan.publish.allow_unsigned and not trusted):
        return key
    held = f"holds {len(trusted)} other key{'s' if len(trusted) != 1 else ''}" if trusted else "is not set"
    raise KeyUnlikePods(
        f"pods of {plan.profile} do not trust the key in {path}: {plan.publish.public_key_env} {held} in the profile",
        "They would refuse what is signed with it. Nothing was published.",
        f"Put `{plan.publish.public_key_env}: {key.public_text}` into the profile's env and deploy the pod anew, or name the other key in PODWRIGHT_SIGNING_KEY.",
    )


def refuse_what_hurts(profile: str, forecasts: Sequence[Forecast], when: When, *, now: bool, for_new_pods: bool) -> None:
    """Raises NeedsNewPod, WentBack or EndpointBusy; what is only for new pods hurts nobody."""
    forecasts = [f for f in forecasts if not f.astray]
    if not for_new_pods:
        if impossible := [f for f in forecasts if f.effect is Effect.POD]:
            names = ", ".join(f.follower.name for f in impossible)
            raise NeedsNewPod(
                f"{names} cannot become that in place",
                "Image, GPUs, disk, ports or the bridge's mode are given to a pod when it is created. It would refuse the publication. Nothing was published.",
                f"`podwright publish {profile} --for-new-pods`, then `podwright deploy {profile} --replace`: the endpoint is away for the start of a pod.",
            )
        if failed := [f for f in forecasts if f.failed_before]:
            raise WentBack(
                f"{', '.join(f.follower.name for f in failed)} went back from this very manifest before: {failed[0].failed_before}",
                "A pod does not try again what failed. Nothing was published.",
                "Change what failed and publish that, or start a new pod; --for-new-pods publishes it for pods to come.",
            )
    busy = [f for f in forecasts if f.effect is Effect.ENGINE and f.busy and not f.failed_before]
    if busy and when == "now" and not now:
        raise EndpointBusy(
            f"the engine would be restarted under {sum(f.busy for f in busy)} running requests ({', '.join(f.follower.name for f in busy)})",
            "They get two minutes to finish; those that take longer wait for the new engine or start again. Nothing was published.",
            "Say --idle: each pod then waits for a moment without requests. Or --now, to restart all the same.",
        )

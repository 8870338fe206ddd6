"""The image is in a registry that asks for credentials, and none are named.

## What it flags
An image of the Hugging Face Space registry, GitHub's or another private host without `deploy.registry_auth`.

## Why it hurts
The pull is refused, and the pod waits in a pull error, paid for.

## Example
    container: {name: "registry.hf.space/me-pod:v3"}

## Use instead
    deploy: {registry_auth: cmqsgvkd1000gktxpenl2wvpk}

## When to ignore
For a public image.

## Source
Deployment notes on the prebaked image; RunPod contract, image pull.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP014", name="registry-without-credential", severity=Severity.WARNING, traps=("registry-auth",))

PUBLIC_HOSTS = frozenset({"docker.io", "quay.io", "nvcr.io", "public.ecr.aws", "mcr.microsoft.com", "registry.k8s.io"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a named host that is not known to be public."""
    host, _, rest = subject.plan.image.name.partition("/")
    names_host = bool(rest) and ("." in host or ":" in host)
    if subject.plan.target == "runpod" and names_host and host not in PUBLIC_HOSTS and subject.plan.deploy.registry_auth is None:
        what = f"no credential for {host} is named"
        fix = "create one at RunPod and put its id into deploy.registry_auth"
        yield Hit(subject.place("profile", "container", "name"), what, "a private image is refused, and the pod waits in a pull error", fix)

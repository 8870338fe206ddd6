"""An own machine with a Docker engine: `run.sh`, and a form to fill the secrets into. Nothing is reachable from outside."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from compiler.artifact import Artifact
from compiler.plan import Plan
from compiler.render.environment import rendered
from compiler.targets.base import DEFAULT_OPTIONS, TargetError, TargetOptions

NAME = "docker"
RUN_PATH, SECRETS_PATH = "run.sh", "secrets.env.example"
# The runtime gives the engine 20 s to end; Docker's own patience is 10 s and would cut it short.
STOP_TIMEOUT_S = 30
# Docker's own rule for container names.
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


def request_problems(plan: Plan, command: Sequence[str], options: TargetOptions = DEFAULT_OPTIONS) -> list[str]:
    """What Docker would refuse in this plan, one sentence each."""
    found = []
    name = plan.deploy.pod_name
    if not name or name[0] in "_.-" or not set(name) <= _NAME_CHARACTERS:
        found.append(f"{name!r} is no container name; letters, digits, dot, dash and underscore are allowed, the first one a letter or digit")
    if plan.storage.network_volume_id:
        found.append("a network volume exists at RunPod only; on an own machine the Hub cache is mounted")
    found += [f"the folder {folder!r} cannot be mounted" for f in model_folders(plan) if (folder := f["folder"]) == "/" or "//" in folder or "/.." in folder]
    if "," in plan.storage.hf_home:
        found.append(f"the mount point {plan.storage.hf_home!r} holds a comma, which Docker's --mount takes for the end of it")
    return found


def bundle_artifacts(plan: Plan, command: Sequence[str], options: TargetOptions = DEFAULT_OPTIONS) -> list[Artifact]:
    """`run.sh`, and `secrets.env.example` where there are secrets. Raises TargetError when `request_problems` finds any."""
    problems = request_problems(plan, command, options)
    if problems:
        raise TargetError(NAME, problems)
    return [_run_script(plan, command), *([_secrets_form(plan)] if plan.secrets else [])]


def deploy_notes(plan: Plan, options: TargetOptions = DEFAULT_OPTIONS) -> tuple[str, ...]:
    """How to start the container by hand."""
    secrets = ("Copy `secrets.env.example` to `secrets.env` and fill it in; it never becomes part of a bundle. " if plan.secrets else "")
    gpus = ("The machine needs an NVIDIA driver of at least "
            f"{plan.hardware.min_driver} and the NVIDIA container toolkit. " if plan.hardware.architecture != "cpu" else "")
    return (f"{gpus}{secrets}Then `./run.sh`; it serves http://127.0.0.1:{plan.network.endpoint_port} until Ctrl-C. Further words go to "
            "`docker run`, for instance `./run.sh --detach`.",)


def schemas(options: TargetOptions = DEFAULT_OPTIONS) -> Mapping[str, str]:
    """No outside document describes `docker run`."""
    return {}


def _run_script(plan: Plan, command: Sequence[str]) -> Artifact:
    entrypoint = plan.deploy.entrypoint
    values: dict[str, object] = {
        "profile": plan.profile, "endpoint_port": plan.network.endpoint_port, "secrets": bool(plan.secrets),
        "required": [s.env for s in plan.secrets if s.required], "options": [" ".join(map(_array_word, words)) for words in _options(plan)],
        "hf_home": plan.storage.hf_home, "needs_hub": needs_hub(plan), "folders": model_folders(plan), "image": plan.image.reference, "command": (*entrypoint[1:], *command),
    }  # fmt: skip
    return Artifact(RUN_PATH, rendered("docker/run.sh.j2", **values), 0o755)


def needs_hub(plan: Plan) -> bool:
    """Whether anything is downloaded: a generated model without drafts needs no cache."""
    engines = [(plan.model, plan.engine), *((m.model, m.engine) for m in (plan.swap.members if plan.swap else ()))]
    return any(model.fetched or model.tokenizer or engine.drafts for model, engine in engines)


def model_folders(plan: Plan) -> list[dict[str, str]]:
    """Weights that the owner mounts: the variable that names the folder on the machine, and the folder in the container."""
    models = [plan.model, *(m.model for m in (plan.swap.members if plan.swap else ()))]
    names = {m.slug: m.folder for m in models if m.folder is not None}
    return [{"variable": f"PODWRIGHT_MODEL_{''.join(c if c.isalnum() else '_' for c in slug).upper()}", "folder": folder} for slug, folder in names.items()]


def _array_word(word: str) -> str:
    """`word` quoted for a Bash array, where a bare comma looks like a separator to readers and linters."""
    quoted = shlex.quote(word)
    return f"'{word}'" if "," in word and quoted == word else quoted


def _secrets_form(plan: Plan) -> Artifact:
    lines = ["# One NAME=VALUE a line, no quotes: Docker takes everything after the = as it stands."]
    for secret in plan.secrets:
        lines += [f"# {' '.join(secret.purpose.split())}{'' if secret.required else ' Optional.'}", f"{secret.env}="]
    return Artifact(SECRETS_PATH, ("\n".join(lines) + "\n").encode())


def _options(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Options of `docker run`, one tuple for each line of the script."""
    yield ("--rm", "--name", plan.deploy.pod_name, "--stop-timeout", str(STOP_TIMEOUT_S))
    if plan.hardware.architecture != "cpu":
        yield ("--gpus", str(plan.hardware.count))
    # Workers of one engine share tensors through /dev/shm; Docker's own 64 MB is too small for that.
    yield ("--ipc", "host")
    for port in (port for port in plan.network.ports if port.number != plan.network.endpoint_port):
        yield ("--publish", f"127.0.0.1:{port.number}:{port.number}")
    if plan.deploy.entrypoint:
        yield ("--entrypoint", plan.deploy.entrypoint[0])
    yield ("--mount", f"type=volume,src={plan.deploy.pod_name}-cache,dst={plan.storage.vllm_cache_root}")
    for variable in sorted(plan.pod_env, key=lambda v: v.name):
        yield ("--env", f"{variable.name}={variable.value}")

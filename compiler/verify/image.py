"""The engine release in an image: the judge runs in a container that has no network, writes nothing and is gone afterwards."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.deploy.docker_engine import engine_client
from compiler.deploy.failures import DockerUnavailable
from compiler.plan.core import Plan
from compiler.schema.engine import EngineSpec
from compiler.verify.asking import IMPORT_S, JUDGE, QUESTION_S, Answer, NoAnswer, answers_in, quiet_env
from compiler.verify.environment import NO_COMPILER, NoEngine

OWN = "profile"
INSIDE = Path("/podwright")
FIND_ENGINE = Path("images/common/find-engine.sh")
NO_RELEASE = 3
ENDED = (124, 137)  # by `timeout`, by KILL
LABEL = "dev.podwright.verify"
# Where Docker is only looked for, nobody waits long for a machine that does not answer.
LOOK_S = 5
# Reading the release's files for the driver's symbols, from a cold disk.
PREPARE_S = 120
# Kernels that are compiled while they are imported land there, and so does the driver library, which must be executable.
SCRATCH = "rw,exec,nosuid,nodev,size=2g,mode=1777"
OTHER_WAYS = "Or leave out --engine-image: an environment with the release is then made, without Docker."


@dataclasses.dataclass(frozen=True, slots=True)
class ImageEngine:
    """An image of the Docker engine that should have the release."""

    reference: str
    id: str

    def seen(self, path: Path, folder: Path) -> Path:
        """A path below the folder that the container is given, as the container sees it."""
        return INSIDE / path.relative_to(folder)


def candidates(plan: Plan, spec: EngineSpec) -> list[str]:
    """Images that have a profile's release: its own, and the release's public one."""
    public = [f"{image.image}@{image.digest}" if image.digest else image.image for image in spec.images if image.recipe == "vllm-openai"]
    public += [image.image for image in spec.images if image.recipe == "vllm-openai"]
    return list(dict.fromkeys([plan.image.reference, plan.image.name, *public]))


def image_engine(named: str, plan: Plan, spec: EngineSpec) -> ImageEngine:
    """The named image, or with `profile` the first candidate that the Docker engine holds. Raises NoEngine or DockerUnavailable."""
    names = candidates(plan, spec) if named == OWN else [named]
    found = _held(names, engine_client())
    if found is not None:
        return found
    if named != OWN:
        raise NoEngine(
            f"the Docker engine holds no image {named}",
            "Nothing is pulled here: such an image has 10 GB and more.",
            f"`docker pull {named}`, or name an image that `docker images` lists. {OTHER_WAYS}",
        )
    pulls = [name for name in names[1:] if "@" not in name and name != plan.image.name]
    ways = [f"`podwright image {plan.profile}` builds {plan.image.name}"] if plan.image.prebaked else []
    ways += [f"`docker pull {name}` fetches the release's own" for name in pulls]
    raise NoEngine(
        f"the Docker engine holds none of {', '.join(names)}",
        "The release is asked inside an image that has it.",
        f"{'; '.join(ways)}. {OTHER_WAYS}",
    )


def image_at_hand(plan: Plan, spec: EngineSpec) -> ImageEngine | None:
    """A candidate, where a Docker engine answers and holds one."""
    try:
        return _held(candidates(plan, spec), engine_client(LOOK_S))
    except DockerUnavailable:
        return None


def _held(names: Sequence[str], client: Any) -> ImageEngine | None:
    from docker.errors import APIError, NotFound  # type: ignore[import-untyped,unused-ignore]

    try:
        for name in names:
            try:
                return ImageEngine(name, str(client.inspect_image(name)["Id"]))
            except (NotFound, APIError):
                continue
        return None
    finally:
        client.close()


def image_answers(
    engine: ImageEngine, release: str, card: Mapping[str, Any], jobs: Sequence[dict[str, Any]], root: Path, folder: Path
) -> dict[str, Answer]:
    """The release's answers by id, all from one container. `folder` holds what the jobs name. Raises NoAnswer or NoEngine."""
    limit = PREPARE_S + IMPORT_S + QUESTION_S * len(jobs)
    _filled(folder, root, jobs)
    code, out, err = _ran(
        engine, ["bash", f"{INSIDE}/judge/in_image.sh", release, str(limit)], quiet_env(card, Path("/tmp")), folder, limit + PREPARE_S
    )
    last = (err.strip().splitlines() or ["it said nothing"])[-1]
    if code == NO_RELEASE:
        fix = f"Name an image that has vllm {release} with --engine-image. {OTHER_WAYS}"
        raise NoEngine(f"the image {engine.reference} has no vllm {release}", last, fix)
    if code == NO_COMPILER:
        fix = f"Take an image that can serve: its kernels are compiled at run time, so it has both. {OTHER_WAYS}"
        raise NoEngine(f"the image {engine.reference} has no C compiler or no binutils", last, fix)
    if code in ENDED:
        what = f"the image {engine.reference} gave no answer in {limit:.0f} s, or was ended for want of memory"
        raise NoAnswer(what, last, "Run it again on a machine that is less busy.")
    return answers_in(out, len(jobs), f"the image {engine.reference}", code, err)


def _filled(folder: Path, root: Path, jobs: Sequence[dict[str, Any]]) -> None:
    """The folder that is mounted: the judge, and the questions; readable for whichever user the image runs as."""
    shutil.copytree(root / JUDGE, folder / "judge", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / FIND_ENGINE, folder / "judge" / FIND_ENGINE.name)
    (folder / "judge" / "jobs.json").write_text(json.dumps(list(jobs)), encoding="utf-8")
    for path in _all(folder):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _all(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def _ran(engine: ImageEngine, command: Sequence[str], env: Mapping[str, str], folder: Path, seconds: float) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in a container, which is gone afterwards, whatever ends this. Raises NoAnswer."""
    from docker.errors import DockerException, NotFound  # type: ignore[import-untyped,unused-ignore]
    from requests.exceptions import RequestException

    client = engine_client()
    name = f"podwright-verify-{secrets.token_hex(4)}"
    try:
        made = _settings(client, engine, command, env, folder)
        client.create_container_from_config(made, name)
        client.start(name)
        code = int(client.wait(name, timeout=seconds)["StatusCode"])
        texts = [client.logs(name, stdout=out, stderr=not out).decode("utf-8", "replace") for out in (True, False)]
        return code, texts[0], texts[1]
    except (DockerException, RequestException) as error:
        why = str(getattr(error, "explanation", None) or error)
        raise NoAnswer(
            f"the container of {engine.reference} gave no answer: {why}", "Nothing is known about the plan.", _hint(why)
        ) from error
    finally:
        try:
            client.remove_container(name, force=True, v=True)
        except NotFound:
            pass
        finally:
            client.close()


def _hint(why: str) -> str:
    if "bind source path does not exist" in why:
        folder = os.environ.get("TMPDIR", "/tmp")
        return f"The Docker engine must be on this machine and see {folder}; `--engine-python` or no option at all needs no Docker."
    return "Run it again on a machine that is less busy, and look at the Docker engine's log."


def _settings(client: Any, engine: ImageEngine, command: Sequence[str], env: Mapping[str, str], folder: Path) -> Any:
    """The body of the create call."""
    host = client.create_host_config(
        network_mode="none", read_only=True, tmpfs={"/tmp": SCRATCH}, cap_drop=["ALL"], security_opt=["no-new-privileges"], init=True,
        log_config={"type": "json-file", "config": {}},
    )  # fmt: skip
    host["Mounts"] = [{"Type": "bind", "Source": str(folder.absolute()), "Target": str(INSIDE), "ReadOnly": True}]
    # Ranks believe to be alone and meet on loopback, the only interface.
    alone = {"HOME": "/tmp", "GLOO_SOCKET_IFNAME": "lo", "VLLM_HOST_IP": "127.0.0.1"}
    return client.create_container_config(
        engine.id, list(command[1:]), entrypoint=list(command[:1]), environment={**env, **alone}, working_dir="/tmp",
        labels={LABEL: engine.reference}, host_config=host,
    )  # fmt: skip

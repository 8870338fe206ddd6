"""A box under the desk: the emitted image in a Docker engine as the pod, behind the same `Provider` as a rented one.

The container gets what the bundle's `run.sh` gives it. Labels hold what it was made from, so that a lost state file is made again from the
engine's own list. Nothing is rented: no catalogue, no price, no template, no charges.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compiler.deploy import docker_container as made
from compiler.deploy.answers import mapping, moment, text, whole
from compiler.deploy.docker_engine import engine_client
from compiler.deploy.failures import DockerUnavailable
from compiler.deploy.provider import Action, Candidate, LogLine, LogSource, Pod, PodStatus, StockQuestion, Template, Wanted
from compiler.deploy.provider_errors import Garbled, Missing, ProviderError, Refused, ServerFailed, Unanswered, WrongState
from compiler.deploy.refusals import ImageNotFixed
from compiler.targets.docker import STOP_TIMEOUT_S

# A container that its engine started so often within one deploy will not come up.
STARTS_TOO_MANY = 3
ID_LENGTH = 12
_STATES = {
    "created": PodStatus.EXITED, "running": PodStatus.RUNNING, "paused": PodStatus.RUNNING, "restarting": PodStatus.STARTING,
    "removing": PodStatus.TERMINATED, "exited": PodStatus.EXITED, "dead": PodStatus.ERROR,
}  # fmt: skip
_CURES = (
    (r"port is already allocated|address already in use", f"Another program has the port: stop it, or choose another one with {made.PORT_ENV}."),
    (r"could not select device driver|nvidia-container|libnvidia", "Install the NVIDIA container toolkit and restart the Docker engine: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/"),
    (r"network .* not found", f"Create that network, or unset {made.NETWORK_ENV}."),
    (r"no space left on device", "Free disk space where the engine keeps its images; `docker system df` shows what takes it."),
)  # fmt: skip


class DockerProvider:
    """One Docker engine. `environment` gives secrets, ports and folders; `say` is told of what takes long."""

    name = "docker"

    def __init__(self, environment: Mapping[str, str], say: Callable[[str], None] = lambda text: None) -> None:
        self._environment, self._say = environment, say
        self._connection: Any = None
        self._secrets: dict[str, str] = {}

    @property
    def _client(self) -> Any:
        if self._connection is None:
            try:
                self._connection = engine_client()
            except DockerUnavailable as problem:
                raise Unanswered(problem.what, why=problem.why, fix=problem.fix) from problem
        return self._connection

    def catalogue(self, question: StockQuestion) -> None:
        """Nothing is rented."""

    def template(self, name: str) -> Template | None:
        """There are none."""
        return None

    def write_template(self, wanted: Wanted, existing: Template | None) -> Template | None:
        """There are none."""
        return None

    def template_fields(self, wanted: Wanted) -> Mapping[str, str] | None:
        """There are none."""
        return None

    def registry_credential(self, name: str, username: str, password: str) -> None:
        """The engine has its own: `docker login`."""

    def charges(self, pod_id: str, since: float) -> None:
        """Nothing is billed."""

    def skew_s(self) -> float:
        """Containers have this machine's clock, or nobody says."""
        return 0.0

    def pod_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a container of `wanted` would be made from; the image by its id, which a new build changes under the same tag."""
        self._secrets = {secret.provider_name: secret.env for secret in wanted.plan.secrets}
        image_id = self._image_id(wanted.plan.image.reference)
        if image_id is None and made.is_local_name(wanted.plan.image.reference):
            raise _no_image(wanted)
        return made.fields(wanted, self._environment, image_id or "")

    def secret_names(self) -> frozenset[str]:
        """Those of the profile that have a value here: in the environment, or in the file that PODWRIGHT_SECRETS names."""
        values = made.secret_values(self._environment)
        return frozenset(name for name, env in self._secrets.items() if values.get(env))

    def pods(self) -> list[Pod]:
        """Our containers, stopped ones included."""
        with self._answers("its containers"):
            rows = self._client.containers(all=True, filters={"label": made.LABEL})
        found = []
        for row in rows:
            with contextlib.suppress(Missing):
                found.append(self.pod(str(row["Id"])[:ID_LENGTH]))
        return found

    def pod(self, pod_id: str) -> Pod:
        """One container. Raises Missing when it is gone."""
        return _pod_of(self._inspected(pod_id))

    def create(self, wanted: Wanted, name: str, candidate: Candidate) -> Pod:
        """Pull the image where it is not here yet, make the container and start it. One that does not start is removed again."""
        from docker.errors import APIError  # type: ignore[import-untyped,unused-ignore]

        image_id = self._pulled(wanted)
        with self._answers("a new container"):
            settings = made.settings(self._client, wanted, name, self._environment, image_id)
            made_id = str(self._client.create_container_from_config(settings, name)["Id"])[:ID_LENGTH]
            try:
                self._client.start(made_id)
            except APIError as problem:
                self._client.remove_container(made_id, force=True)
                raise _refused(problem) from problem
        return self.pod(made_id)

    def act(self, pod: Pod, action: Action) -> None:
        """Stop, start, restart or terminate; the runtime has half a minute to end its engine. The cache's volume stays."""
        if action == "terminate":
            with contextlib.suppress(Missing):
                with contextlib.suppress(WrongState), self._answers(f"container {pod.id}", pod.id):
                    self._client.stop(pod.id, timeout=STOP_TIMEOUT_S)
                with self._answers(f"container {pod.id}", pod.id):
                    self._client.remove_container(pod.id, force=True)
            return
        status = self.pod(pod.id).status
        if (action == "start") is (status is not PodStatus.EXITED):
            raise WrongState(f"container {pod.id} is {status}", detail=f"it is {status}")
        with self._answers(f"container {pod.id}", pod.id):
            if action == "start":
                self._client.start(pod.id)
            else:
                (self._client.stop if action == "stop" else self._client.restart)(pod.id, timeout=STOP_TIMEOUT_S)

    def logs(self, pod_id: str, *, tail: int, source: LogSource | None = None, follow: bool = False) -> Iterator[LogLine]:
        """The container's output. The engine has no lines of its own about it."""
        if source == "system":
            return
        with self._answers(f"the log of container {pod_id}", pod_id):
            stream = self._client.logs(pod_id, stream=True, follow=follow, timestamps=True, tail=tail)
            try:
                yield from _lines(stream)
            finally:
                stream.close()

    def endpoint(self, pod: Pod, port: int) -> str:
        """Where a port of the container is reached from this machine."""
        container = self._inspected(pod.id)
        held = mapping(json.loads(_labels(container).get(made.PORTS_LABEL) or "{}"))
        return f"http://{made.reached(text(held.get(str(port))) or f'{made.LOOPBACK}:{port}')}"

    def close(self) -> None:
        """Close connections."""
        if self._connection is not None:
            self._connection.close()

    def _inspected(self, pod_id: str) -> Mapping[str, Any]:
        with self._answers(f"container {pod_id}", pod_id):
            container = mapping(self._client.inspect_container(pod_id))
        if not container.get("Id"):
            raise Garbled(f"the Docker engine's answer about container {pod_id} has no id")
        return container

    def _image_id(self, reference: str) -> str | None:
        from docker.errors import ImageNotFound  # type: ignore[import-untyped,unused-ignore]

        with self._answers(f"image {reference}"):
            try:
                return str(self._client.inspect_image(reference)["Id"])
            except ImageNotFound:
                return None

    def _pulled(self, wanted: Wanted) -> str:
        """The image's id. Raises ImageNotFixed when it is neither here nor to be had."""
        reference, profile = wanted.plan.image.reference, wanted.plan.profile
        if found := self._image_id(reference):
            return found
        if made.is_local_name(reference):
            raise _no_image(wanted)
        self._say(f"pulling {reference}")
        with self._answers(f"image {reference}"):
            for event in self._client.pull(reference, stream=True, decode=True, platform="linux/amd64"):
                if said := text(event.get("error")):
                    raise ImageNotFixed(f"{reference} cannot be pulled: {said}", "Without its image the pod cannot start.", f"Look at its name, or log in with `docker login`; `podwright lock {profile}` asks the registry.")
                if text(event.get("status")) in ("Pull complete", "Already exists"):
                    self._say(f"pulling {reference}: layer {event.get('id')} is here")
        found = self._image_id(reference)
        if found is None:
            raise Garbled(f"the Docker engine pulled {reference} and does not have it")
        return found

    @contextlib.contextmanager
    def _answers(self, about: str, pod_id: str = "") -> Iterator[None]:
        """The engine's errors as a provider's."""
        # The libraries are loaded by the client; nothing is asked before.
        client = self._client
        from docker.errors import APIError, DockerException  # type: ignore[import-untyped,unused-ignore]
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        assert client is not None
        try:
            yield
        except APIError as problem:
            raise _failure(problem, about, pod_id) from problem
        except (DockerException, RequestException, HTTPError, OSError, ValueError) as problem:
            raise Unanswered(f"the Docker engine does not answer about {about}: {problem}", fix="Look at the engine: `docker version`.") from problem


def _no_image(wanted: Wanted) -> ImageNotFixed:
    return ImageNotFixed(
        f"{wanted.plan.image.reference} is not in this Docker engine", "It is a name of this machine's own engine; no registry has it.",
        f"Run `podwright image {wanted.plan.profile}` first.",
    )  # fmt: skip


def has_pod_of(client: Any, profile: str) -> bool:
    """Whether the engine has a container that was made for the profile; False where it does not answer."""
    from docker.errors import DockerException  # type: ignore[import-untyped,unused-ignore]
    from requests.exceptions import RequestException

    try:
        return bool(client.containers(all=True, filters={"label": f"{made.LABEL}={profile}"}))
    except (DockerException, RequestException, OSError, ValueError):
        return False


def _failure(problem: Any, about: str, pod_id: str) -> ProviderError:
    status, said = int(problem.status_code or 500), str(problem.explanation or problem).strip()
    if status == 404 and pod_id:
        return Missing(f"container {pod_id} does not exist any more", detail=said)
    if status == 409:
        return WrongState(f"the Docker engine refuses that for {about}: {said}", detail=said)
    return _refused(problem) if status < 500 else ServerFailed(f"the Docker engine failed over {about}: {said}", detail=said, status=status)


def _refused(problem: Any) -> Refused:
    said = str(problem.explanation or problem).strip()
    cure = next((fix for pattern, fix in _CURES if re.search(pattern, said, re.I)), "Read its reason; `docker events` and the engine's log say more.")
    return Refused(f"the Docker engine refuses: {said}", detail=said, why="The container was removed again; nothing runs.", fix=cure)


def _labels(container: Mapping[str, Any]) -> dict[str, str]:
    held = mapping(mapping(container.get("Config")).get("Labels"))
    return {name: value for name, value in held.items() if isinstance(value, str)}


def _pod_of(container: Mapping[str, Any]) -> Pod:
    state, labels = mapping(container.get("State")), _labels(container)
    status = _STATES.get(text(state.get("Status")) or "", PodStatus.UNKNOWN)
    if status is PodStatus.STARTING and (whole(container.get("RestartCount")) or 0) >= STARTS_TOO_MANY:
        status = PodStatus.ERROR
    try:
        fields = mapping(json.loads(labels.get(made.FIELDS_LABEL) or "{}"))
    except ValueError:
        fields = {}
    started = moment(state.get("StartedAt"))
    gpus = sum(whole(request.get("Count")) or 0 for request in mapping(container.get("HostConfig")).get("DeviceRequests") or ())
    return Pod(
        id=str(container["Id"])[:ID_LENGTH], name=(text(container.get("Name")) or "").lstrip("/"), status=status, gpu_id=labels.get(made.HARDWARE_LABEL), gpu_count=gpus or None,
        created=moment(container.get("Created")), started=started if started and started > 0 else None, machine=text(mapping(container.get("Node")).get("Name")),
        fields={name: str(value) for name, value in fields.items()},
    )  # fmt: skip


def _lines(stream: Any) -> Iterator[LogLine]:
    """Whole lines of a stream of pieces, each with the engine's time stamp in front."""
    rest = b""
    for piece in stream:
        *whole_lines, rest = (rest + piece).split(b"\n")
        yield from map(_log_line, whole_lines)
    if rest:
        yield _log_line(rest)


def _log_line(raw: bytes) -> LogLine:
    at, _, said = raw.decode("utf-8", "replace").partition(" ")
    return LogLine(at, "container", said.rstrip("\r"))

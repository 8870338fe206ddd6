"""`podwright image --via hf-space`: a Docker Space as a builder, for those without a Docker engine and without a registry.

The bundle's build context goes up in one commit; the Space builds it, and its image is pulled from the Hub's own registry with the account's
name and token. The Space is paused afterwards: nothing needs to run there.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler import __version__
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.failures import BadAnswer, Denied, ImageNotBuilt, Unreachable
from compiler.deploy.hub import HubClient
from compiler.deploy.image import TAIL_LINES
from compiler.deploy.provider import Provider
from compiler.diagnostics import brief, printable
from compiler.plan import Plan
from compiler.secrets import masked

REGISTRY = "registry.hf.space"
# What the Dockerfile may copy, as the bundle's .dockerignore says, and the two files that say how to build.
CONTEXT = ("Dockerfile", ".dockerignore", "bootstrap.sh", "manifest.json")
_BUILDING = ("BUILDING", "RUNNING_BUILDING")
_FAILED = ("BUILD_ERROR", "CONFIG_ERROR", "NO_APP_FILE")
# Between two looks at a Space whose log is silent.
LOOK_S = 5.0
# A build starts within seconds of the commit; a queue was never longer than some minutes.
LONGEST_QUEUE_S = 900.0
# The free builder takes 20 to 40 minutes for an engine's image; what takes this long hangs.
LONGEST_BUILD_S = 3 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class SpaceImage:
    """What a Space built: the Space, the commit, the image's name at the Hub's registry, and the account that may pull it."""

    space: str
    commit: str
    name: str
    account: str
    seconds: float


class Space(HubClient):
    """One Docker Space. Raises what a HubClient raises, and ImageNotBuilt."""

    def __init__(self, name: str | None, profile: str, *, clock: Clock | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._clock = clock or SystemClock()
        self.account = self._account()
        self.name = name or f"{self.account}/podwright-{profile}"

    @property
    def image(self) -> str:
        """The name under which its image is pulled."""
        return f"{REGISTRY}/{self.name.replace('/', '-').replace('_', '-').replace('.', '-').lower()}:latest"

    def build(self, plan: Plan, bundle: Path, on_line: Callable[[str], None]) -> SpaceImage:
        """Upload a bundle's context and follow its build to the end."""
        began = self._clock.time()
        self._asked(self.name, lambda: self._api.create_repo(self.name, repo_type="space", space_sdk="docker", private=True, exist_ok=True))
        commit, changed = self._uploaded(plan, bundle)
        on_line(f"{self.name}: {'commit ' + commit[:12] if changed else 'it holds this context already'}")
        self._built(commit, changed, on_line)
        with contextlib.suppress(Denied, BadAnswer, Unreachable):  # It is built; a Space that goes on running costs nothing but noise.
            self._asked(self.name, lambda: self._api.pause_space(self.name))
        return SpaceImage(self.name, commit, self.image, self.account, self._clock.time() - began)

    def token(self) -> str:
        """The token in use: it is the password of the Hub's registry."""
        from huggingface_hub import get_token

        return self._token or get_token() or ""

    def _account(self) -> str:
        told = self._asked("the token's account", lambda: self._api.whoami())
        if not isinstance(told, Mapping) or not isinstance(told.get("name"), str):
            raise BadAnswer(f"{self.host} does not say whose token it is", "A Space belongs to an account.", "Set HF_TOKEN to a token of kind write.")
        return str(told["name"])

    def _uploaded(self, plan: Plan, bundle: Path) -> tuple[str, bool]:
        """One commit with the whole context, without what an older one left; the commit, and whether anything changed."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        files = context_of(plan, bundle)
        info = self._asked(self.name, lambda: self._api.space_info(self.name, files_metadata=True))
        there = {f.rfilename: f.blob_id for f in info.siblings or () if not f.rfilename.startswith(".git")}
        if {path: _git_oid(content) for path, content in files.items()} == there:
            return str(info.sha), False
        operations: list[Any] = [CommitOperationAdd(path, content) for path, content in sorted(files.items())]
        operations += [CommitOperationDelete(path) for path in sorted(there.keys() - files.keys())]
        title = f"{plan.profile}: {plan.image.distribution} {plan.image.release}"
        made = self._asked(self.name, lambda: self._api.create_commit(self.name, operations, commit_message=title, repo_type="space", parent_commit=info.sha))
        return str(made.oid), made.oid != info.sha

    def _built(self, commit: str, changed: bool, on_line: Callable[[str], None]) -> None:
        """Follow the build of a commit. Raises ImageNotBuilt with the last lines."""
        began, has_built, tail = self._clock.time(), not changed, collections.deque[str](maxlen=TAIL_LINES)
        asked_again = False
        while True:
            stage, sha = self._stage()
            if stage in _BUILDING:
                has_built = True
                for line in self._lines():
                    tail.append(line)
                    on_line(line)
            elif stage in _FAILED and (has_built or sha == commit):
                raise self._not_built(stage, tail or collections.deque(self._lines(follow=False), TAIL_LINES))
            elif has_built or sha == commit:
                return
            elif stage in ("PAUSED", "STOPPED", "SLEEPING") and not asked_again:
                asked_again = True  # A paused Space does not build by itself.
                self._asked(self.name, lambda: self._api.restart_space(self.name))
            waited = self._clock.time() - began
            if waited > (LONGEST_BUILD_S if has_built else LONGEST_QUEUE_S):
                raise self._not_built(f"{stage} after {waited / 60:.0f} minutes", tail)
            self._clock.sleep(LOOK_S)

    def _stage(self) -> tuple[str, str | None]:
        """The Space's stage, and the commit that it speaks of where it says so."""
        runtime = self._asked(self.name, lambda: self._api.get_space_runtime(self.name))
        sha = runtime.raw.get("sha") if isinstance(runtime.raw, Mapping) else None
        return str(getattr(runtime.stage, "value", runtime.stage)), sha if isinstance(sha, str) else None

    def _lines(self, *, follow: bool = True) -> Iterator[str]:
        """The build's log until it ends, or breaks off: the stage says then how it stands."""
        from huggingface_hub.errors import HfHubHTTPError

        try:
            for piece in self._api.fetch_space_logs(self.name, build=True, follow=follow):
                for line in str(piece).splitlines():
                    if said := printable(brief(masked(line), 400)).rstrip():
                        yield said
        except (HfHubHTTPError, OSError, KeyError, json.JSONDecodeError):
            return
        except Exception as error:
            if not type(error).__module__.startswith(("httpx", "httpcore")):
                raise

    def _not_built(self, stage: str, tail: collections.deque[str]) -> ImageNotBuilt:
        said = ["It printed, last:", *(f"  {line}" for line in tail)] if tail else ["Its log is empty."]
        return ImageNotBuilt(f"the Space {self.name} did not build the image: {stage}", "\n".join(said), f"Read its log at {self.endpoint}/spaces/{self.name}; then run the same command again.")

    @property
    def _api(self) -> Any:
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.endpoint, token=self._token, library_name="podwright", library_version=__version__)


def context_of(plan: Plan, bundle: Path) -> dict[str, bytes]:
    """The files of a build in a Space, by path. Raises ImageNotBuilt where there is nothing to build."""
    if not plan.image.prebaked or not (bundle / "Dockerfile").is_file():
        raise ImageNotBuilt(f"{plan.profile} bakes no image", f"Its pods start from {plan.image.reference} and install at boot.", "Set `container.prebaked: true` to bake one.")
    if plan.image.base.startswith("podwright/"):
        raise ImageNotBuilt(f"{plan.image.base} is a name of this machine's Docker engine", "No Space can start from it.", "Push it to a registry, and name it there in the engine spec.")
    paths = [path for name in CONTEXT if (path := bundle / name).is_file()]
    paths += sorted(path for path in (bundle / "image").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    files = {path.relative_to(bundle).as_posix(): path.read_bytes() for path in paths}
    front = {"title": f"podwright {plan.profile}", "sdk": "docker", "app_port": plan.network.endpoint_port, "pinned": False}
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items())
    files["README.md"] = f"---\n{head}---\nBuilds the image of {plan.profile}. Written by podwright; edits are overwritten.\n".encode()
    return files


def kept_credential(provider: Provider, image: SpaceImage, token: str) -> str | None:
    """The provider's credential for the Hub's registry; one for each token, so that a new token gets a new one. None where there is no such thing."""
    word = hashlib.sha256(f"podwright {image.account} {token}".encode()).hexdigest()[:8]
    return provider.registry_credential(f"podwright-hf-{image.account}-{word}", image.account, token)


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()

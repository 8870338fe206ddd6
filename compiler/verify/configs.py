"""Where the config.json of a question comes from: a folder, the Hub, or the facts of the model spec."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

from compiler.deploy.failures import DeployError
from compiler.deploy.hub import HubClient
from compiler.plan.core import ConfigPatch, ModelPlan
from compiler.schema.model import ModelSpec
from compiler.verify.facts import NoFacts, config_of

Source = Literal["folder", "hub", "facts"]
MAIN = "main"


class NoConfig(DeployError):
    """No config.json of a model is at hand."""


@dataclasses.dataclass(frozen=True, slots=True)
class ModelConfig:
    """A config.json and where it is from. `origin` is for people; only a folder's and the Hub's are the checkpoint's own."""

    source: Source
    origin: str
    content: dict[str, Any]

    @property
    def is_own(self) -> bool:
        """Whether the checkpoint itself says it."""
        return self.source != "facts"


def folder_config(folder: Path) -> ModelConfig:
    """The config.json of a folder. Raises NoConfig."""
    path = folder / "config.json" if folder.is_dir() else folder
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise NoConfig(
            f"{path} cannot be read: {error.strerror}",
            "The engine cannot be asked about a model without its config.json.",
            "Name the checkpoint's folder with --config.",
        ) from error
    except ValueError as error:
        raise NoConfig(f"{path} is not JSON: {error}", "The engine would refuse it, too.", "Fetch the file again.") from error
    if not isinstance(content, dict) or not isinstance(content.get("architectures"), list):
        raise NoConfig(
            f"{path} names no architectures",
            "It is not the config.json of a model that the engine could serve.",
            "Name the checkpoint's folder with --config.",
        )
    return ModelConfig("folder", str(path), content)


def hub_config(repo: str, revision: str | None, client: HubClient) -> ModelConfig:
    """The config.json of a Hub repository. Raises DeployError."""
    try:
        content = json.loads(client.content(repo, "config.json", revision or MAIN))
    except ValueError as error:
        raise NoConfig(
            f"config.json of {repo} is not JSON: {error}", "The engine would refuse it, too.", "Look at the file on the Hub."
        ) from error
    if not isinstance(content, dict):
        raise NoConfig(f"config.json of {repo} is no object", "The engine would refuse it, too.", "Look at the file on the Hub.")
    return ModelConfig("hub", f"{repo}@{(revision or MAIN)[:12]}", content)


def facts_config(model: ModelSpec) -> ModelConfig:
    """A config.json from the spec. Raises NoConfig."""
    try:
        content, like = config_of(model)
    except NoFacts as error:
        raise NoConfig(
            f"no config.json for this model: {error}", "Without one the engine cannot be asked what it would do.",
            "Give the checkpoint's own with --config FOLDER (a folder with its config.json is enough), or let --config-from hub fetch it.",
        ) from error  # fmt: skip
    return ModelConfig("facts", f"the model spec's facts over the public shape of {like}", content)


def model_config(
    plan: ModelPlan, spec: ModelSpec, folder: Path | None, wanted: Literal["auto", "hub", "facts"], client: HubClient
) -> ModelConfig:
    """The config.json to ask about: a given folder's, else the Hub's, else (with `auto`) what the spec says. Raises DeployError."""
    if folder is not None:
        return patched(folder_config(folder), plan.config_patches)
    if wanted == "facts" or (wanted == "auto" and not plan.fetched):
        return facts_config(spec)
    try:
        return patched(hub_config(plan.repo, plan.revision, client), plan.config_patches)
    except DeployError:
        if wanted == "hub":
            raise
        return facts_config(spec)


def patched(config: ModelConfig, patches: tuple[ConfigPatch, ...]) -> ModelConfig:
    """The config with the repairs that the pod makes to it before the engine starts."""
    content: dict[str, Any] = json.loads(json.dumps(config.content))
    for patch in patches:
        spot: Any = content
        for key in patch.key_path if patch.file == "config.json" else ():
            spot = spot.get(key) if isinstance(spot, dict) else None
        if isinstance(spot, list):
            spot.extend(value for value in patch.append if value not in spot)
    return dataclasses.replace(config, content=content)

"""Which recipes say where the engine's environment is, and which leave it to be found."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from compiler.schema.engine import BaseImage
from tests.support import subject


def base(recipe: str, **fields: object) -> BaseImage:
    return BaseImage.model_validate({"recipe": recipe, "image": "owner/image:1", "python": "3.12", "has_nvcc": True, "public_entrypoint": False, **fields})


@pytest.mark.parametrize("recipe", ["vllm-venv", "vllm-cpu"])
def test_recipe_that_makes_an_environment_says_where(recipe: str) -> None:
    assert base(recipe, venv="/opt/venv").venv == "/opt/venv"
    with pytest.raises(ValidationError, match="`venv` is missing"):
        base(recipe)


def test_official_image_decides_itself() -> None:
    assert base("vllm-openai").venv is None
    with pytest.raises(ValidationError, match="`venv` is not for vllm-openai"):
        base("vllm-openai", venv="/opt/venv")


@pytest.mark.parametrize(("profile", "venv"), [("nemotron-ada", "/opt/venv"), ("nemotron-blackwell", None), ("tiny-cpu", "/opt/venv")])
def test_plan_of_a_shipped_profile(profile: str, venv: str | None) -> None:
    assert subject(profile).plan.image.venv == venv

"""`specs/evidence/*.yaml`: dated measurements that choices and rules rest on."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.schema.base import Date, ScalarValue, Spec, Text

RecordId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]


class Measurement(Spec):
    """One measurement."""

    id: RecordId = Field(description="Name, unique over all topics.")
    date: Date = Field(description="When it was measured.")
    model: Text | None = Field(None, description="Model.")
    checkpoint: Text | None = Field(None, description="Checkpoint repository.")
    hardware: Text | None = Field(None, description="GPU.")
    gpus: Annotated[int, Field(gt=0)] | None = Field(None, description="GPUs.")
    engine: Text | None = Field(None, description="Engine and release.")
    image: Text | None = Field(None, description="Container image.")
    settings: dict[str, ScalarValue | tuple[ScalarValue, ...]] = Field(default_factory=dict, description="Settings in force.")
    workload: Text | None = Field(None, description="What was run.")
    metric: Text = Field(description="What was measured.")
    value: int | float | str | None = Field(description="The result.")
    unit: Text | None = Field(None, description="Unit of the result; a number needs one.")
    repeats: tuple[float, ...] = Field((), description="Results of repeated runs of the same session; they give a comparison its interval.")
    columns: dict[str, ScalarValue | tuple[ScalarValue, ...]] = Field(default_factory=dict, description="Further results of the same run.")
    baseline: Text | None = Field(None, description="Id of the measurement that it is compared with.")
    verdict: Literal["kept", "rejected", "neutral", "superseded"] | None = Field(None, description="What was decided.")
    superseded_by: Text | None = Field(None, description="Id of the later measurement that replaces it.")
    session: Text | None = Field(None, description="Measurements of one session are comparable.")
    caveat: Text | None = Field(None, description="What limits it.")
    source: Text = Field(description="Document that it was read from.")

    @model_validator(mode="after")
    def _number_with_unit(self) -> Self:
        if self.unit is None and (self.repeats or not isinstance(self.value, (str, type(None)))):
            raise ValueError("a number needs its `unit`: without one nobody can compare it")
        return self

    @model_validator(mode="after")
    def _one_story(self) -> Self:
        if self.superseded_by is not None and self.verdict != "superseded":
            raise ValueError(f"`superseded_by` stands beside the verdict {self.verdict}: say `verdict: superseded`, or leave it out")
        if self.id in (self.baseline, self.superseded_by):
            raise ValueError("it is its own baseline or successor")
        return self


class EvidenceSpec(Spec):
    """Measurements about one topic."""

    kind: Literal["evidence"] = Field(description="Always `evidence`.")
    topic: Text = Field(description="The file's name without its ending.")
    summary: Text = Field(description="One sentence: what was measured, on what, when.")
    records: tuple[Measurement, ...] = Field(description="The measurements.")

    @model_validator(mode="after")
    def _one_record_an_id(self) -> Self:
        ids = [record.id for record in self.records]
        twice = sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
        if twice:
            raise ValueError(f"two records have the id {twice[0]}: a citation could mean either")
        return self

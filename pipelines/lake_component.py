"""The component of a lake: one YAML file in a Dagster project, which `dg` scaffolds."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from pydantic import BaseModel, Field

from .lake_definitions import loglake_assets


class LakeParameters(BaseModel):
    """What `dg scaffold defs` asks for."""

    lake: str = Field(description="Path or address of the lake; it may not exist yet.")
    sources: str | None = Field(None, description="A log directory to read; name more of them in the file.")
    policies: str | None = Field(None, description="Path of its policies.yaml; only together with sources.")


class LakeScaffolder(dg.Scaffolder[LakeParameters]):
    """Writes the file of a lake."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakeParameters]:
        """The parameters of `dg scaffold defs`."""
        return LakeParameters

    def scaffold(self, request: dg.ScaffoldRequest[LakeParameters]) -> None:
        """Write `defs.yaml` with the parameters."""
        given = request.params.model_dump(exclude_none=True)
        if "sources" in given:
            given["sources"] = [given["sources"]]
        dg.scaffold_component(request, given)


@dg.scaffold_with(LakeScaffolder)
class LakeComponent(dg.Component, dg.Model, dg.Resolvable):
    """A lake of Kafka's logs: its assets, checks, jobs, schedules and sensor, as `loglake_assets` builds them."""

    lake: str = Field(description="Path or address of the lake; it may not exist yet.")
    sources: Sequence[str] = Field((), description="Log directories to read. Without them those that are registered.")
    policies: str | None = Field(None, description="Path of its policies.yaml; only together with sources.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of the lake, which is registered in the operator's home."""
        return loglake_assets(self.lake, self.policies, sources=self.sources)

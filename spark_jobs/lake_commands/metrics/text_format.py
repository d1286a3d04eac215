"""Figures in the text format of Prometheus, version 0.0.4, as the textfile collector of node_exporter reads it.

Source: the page "Exposition formats" of Prometheus' documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A documented figure. All are gauges: each can fall as well as rise."""

    name: str
    help: str
    """One sentence, with the unit."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value of a metric."""

    metric: str
    """Name of the metric."""
    labels: tuple[tuple[str, str], ...]
    """Names and values of the labels, in the order of the text."""
    value: float


def as_text(metrics: Sequence[Metric], samples: Iterable[MetricSample]) -> str:
    """Return the text: all samples of a metric together, after its lines HELP and TYPE.

    A metric without samples has no lines.

    Args:
        metrics: All metrics, in the order of the text.
        samples: In any order; those of one metric stay in their order.

    Raises:
        KeyError: A sample is of no metric.
        ValueError: Two samples have the same metric and labels.
    """
    found: Mapping[str, dict[str, float]] = {metric.name: {} for metric in metrics}
    for sample in samples:
        series = _labels(sample.labels)
        if series in found[sample.metric]:
            raise ValueError(f"{sample.metric}{series} has two values")
        found[sample.metric][series] = sample.value
    lines: list[str] = []
    for metric in metrics:
        if values := found[metric.name]:
            help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {metric.name} {help_text}", f"# TYPE {metric.name} gauge"]
            lines += [f"{metric.name}{labels} {_number(value)}" for labels, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    # A path may have bytes that are no text; the format is UTF-8.
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)

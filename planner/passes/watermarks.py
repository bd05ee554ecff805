"""Pushes watermarks into the sources that can make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.common.settings import value
from stateplan.connectors.registry import find_connector
from stateplan.planner.algebra.relations import Calc, Rel, Scan, WatermarkAbility, field_names, replace_inputs
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.expressions.ops import call, substitute

PREFIX = "scan.watermark."


def push_watermarks(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel`` with the watermarks of tables made by their sources, where their connectors can.

    Where the time of a row is computed, the source computes it for the watermark, and the calc behind it makes it a
    time attribute.

    Source: Flink's ``PushWatermarkIntoTableSourceScanRule`` and ``PushWatermarkIntoTableSourceScanAcrossCalcRule``.
    """
    rel = replace_inputs(rel, [push_watermarks(i, options) for i in rel.inputs])
    if not isinstance(rel, WatermarkAssigner):
        return rel
    below = rel.input
    if isinstance(below, Scan) and _makes_watermarks(below):
        return _with_watermarks(rel, below, replace(below, types=tuple(t for _, t in rel.fields)), options)
    if isinstance(below, Calc) and isinstance(below.input, Scan) and _makes_watermarks(below.input):
        assigner = replace(rel, watermark=substitute(rel.watermark, list(below.exprs)))
        scan = _with_watermarks(assigner, below.input, below.input, options)
        exprs = list(below.exprs)
        exprs[rel.rowtime] = call("REINTERPRET", (exprs[rel.rowtime],), rel.fields[rel.rowtime][1])
        return replace(below, input=scan, exprs=tuple(exprs))
    return rel


def _makes_watermarks(scan: Scan) -> bool:
    return "WatermarkPushDown" in find_connector(scan.table.options).abilities


def _with_watermarks(
    assigner: WatermarkAssigner, scan: Scan, scan_with_rowtime: Scan, options: Mapping[str, str]
) -> Scan:
    """``scan_with_rowtime``, which makes the watermarks of ``assigner`` over the fields of ``scan``."""
    watermark_options = {k.removeprefix(PREFIX): text for k, text in scan.table.options.items() if k.startswith(PREFIX)}
    idle = value(options, "table.exec.source.idle-timeout")
    ability = WatermarkAbility(
        assigner.watermark,
        scan.names,
        scan_with_rowtime.fields,
        field_names(assigner)[assigner.rowtime],
        idle if isinstance(idle, int) and idle > 0 else -1,
        tuple(sorted(watermark_options.items())),
    )
    return replace(scan_with_rowtime, abilities=(*scan.abilities, ability))

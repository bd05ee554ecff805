"""Whether what was pushed into a scan fits the table it reads and the rows it gives."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.errors import Place, PlanError
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.rex import Rex, input_refs
from stateplan.execnodes.specs import FilterPushDown, ProjectPushDown, ReadingMetadata, WatermarkPushDown


def check_scan(node: TableSourceScan, pointer: str) -> None:
    """Checks the abilities of a scan, whose table the plan holds.

    Args:
        node: the scan.
        pointer: JSON pointer of the node.

    Raises:
        PlanError: PLAN049 (a column or field that is not there), PLAN064 (an output of the wrong width), PLAN035 (a
            part of a column is read), with the JSON pointer.
    """
    spec = node.scan_table_source
    table = spec.table.resolved_table
    assert table is not None
    columns = table.table_schema.columns
    at = f"{pointer}/scanTableSource"
    schema = f"{at}/table/resolvedTable"
    _check_names(table.partition_keys, [c.name for c in columns], f"{schema}/partitionKeys")
    width = physical = sum(c.kind == "PHYSICAL" for c in columns)
    metadata = len({c.name for c in columns if c.kind == "METADATA"})
    for position, ability in enumerate(spec.abilities):
        own = f"{at}/abilities/{position}"
        if isinstance(ability, ProjectPushDown):
            for i, path in enumerate(ability.projected_fields):
                _check_path(path, physical, f"{own}/projectedFields/{i}")
            width = len(ability.projected_fields)
        elif isinstance(ability, ReadingMetadata):
            metadata = len(ability.metadata_keys)
        elif isinstance(ability, FilterPushDown):
            for i, predicate in enumerate(ability.predicates):
                _check_refs(predicate, width + metadata, f"{own}/predicates/{i}")
        elif isinstance(ability, WatermarkPushDown):
            fields = node.output_type.fields
            _check_refs(ability.watermark_expr, len(fields), f"{own}/watermarkExpr")
            if not any(f.type.kind == "ROWTIME" for f in fields):
                raise _error("PLAN049.check_scan", own)
    if len(node.output_type.fields) != width + metadata:
        raise PlanError(
            "PLAN064.check_scan",
            id=node.id,
            title=node.title,
            count=len(node.output_type.fields),
            width=width + metadata,
            place=Place(pointer=f"{pointer}/outputType"),
        )


def _check_names(names: Sequence[str], columns: Sequence[str], pointer: str) -> None:
    for position, name in enumerate(names):
        if name not in columns:
            raise _error("PLAN049.check_names", f"{pointer}/{position}", name=name, columns=", ".join(columns))


def _check_path(path: Sequence[int], width: int, pointer: str) -> None:
    if not path or path[0] >= width:
        what = f"column {path[0]}" if path else "no column"
        expected = f"a number from 0 to {width - 1}" if width else "no field, as the table has no physical columns"
        raise _error("PLAN049.check_path", pointer, what=what, width=width, expected=expected)
    if len(path) > 1:
        raise _error("PLAN035.check_path", pointer)


def _check_refs(rex: Rex, width: int, pointer: str) -> None:
    for index in input_refs(rex):
        if index >= width:
            raise _error("PLAN049.check_refs", pointer, index=index, width=width)


def _error(
    code: str, pointer: str, *, expected: str | None = None, hint: str | None = None, **values: object
) -> PlanError:
    return PlanError(code, place=Place(pointer=pointer), expected=expected, hint=hint, **values)

"""A kernel of each kind with state, over the same rows."""

from __future__ import annotations

from hypothesis import strategies as st

from stateplan.common.types import BIGINT, INT
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    RetractStrategy,
    SortField,
    SortSpec,
    UpdateFastStrategy,
    VariableRange,
)
from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.common.over_frames import Frame
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.group_table_aggregate import GroupTableAggregateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.kernels.over_aggregate import ProctimeOverKernel
from stateplan.runtime.kernels.rank import rank_kernel
from tests.runtime.kernels.reference import Row
from tests.runtime.kernels.support import call, row_of
from tests.runtime.kernels.user_functions import BEST, user

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2**40]), st.sampled_from([None, "a", "é"]), st.integers(0, 3)
)
CALLS = (call("COUNT", 2, BIGINT, True), call("MIN", 2, INT), call("MAX", 1, ROW.fields[1].type), call("SUM", 2, INT))
SPEC = JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
FULL = JoinSpec(join_type="FULL", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
ORDER = SortSpec(fields=(SortField(index=2, is_ascending=False, null_is_last=True),))
RANGE = ConstantRange(start=1, end=2)
KERNELS: dict[str, tuple[Kernel, bool]] = {
    "first": (DeduplicateKernel(ROW, (0, 1), False, True), False),
    "last": (DeduplicateKernel(ROW, (0,), True, True), False),
    "group": (GroupAggregateKernel(ROW, (0,), CALLS, (True,) * 4, True, True), True),
    "append": (GroupAggregateKernel(ROW, (0,), CALLS, (False,) * 4, True, False), False),
    "global": (GroupAggregateKernel(ROW, (), CALLS, (True,) * 4, True, True), True),
    "table": (GroupTableAggregateKernel(ROW, (0,), (user(BEST, 2, 1),), (True,), True, True), True),
    "join": (JoinKernel(ROW, ROW, SPEC), True),
    "unique": (JoinKernel(ROW, ROW, SPEC, ((2,),), ((0,),)), True),
    "full": (JoinKernel(ROW, ROW, FULL), True),
    "full unique": (JoinKernel(ROW, ROW, FULL, ((2,),), ((0,),)), True),
    "top append": (rank_kernel(ROW, (0,), ORDER, RANGE, AppendFastStrategy(), True, True), False),
    "top update": (rank_kernel(ROW, (), ORDER, RANGE, UpdateFastStrategy(primary_keys=(0, 1)), False, True), False),
    "top retract": (rank_kernel(ROW, (0,), ORDER, RANGE, RetractStrategy(), False, True), True),
    "top variable": (
        rank_kernel(ROW, (1,), ORDER, VariableRange(end_index=2), AppendFastStrategy(), False, True),
        False,
    ),
    "over": (ProctimeOverKernel(ROW, (0,), CALLS, Frame(True)), False),
    "over rows": (ProctimeOverKernel(ROW, (0, 1), CALLS, Frame(True, 2)), False),
    "over time": (ProctimeOverKernel(ROW, (), CALLS, Frame(False, 2)), False),
    "first rows": (rank_kernel(ROW, (0,), SortSpec(fields=()), RANGE, AppendFastStrategy(), True, False), False),
}

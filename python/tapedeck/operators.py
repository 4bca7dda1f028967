"""What an operator's schema does not say."""

from __future__ import annotations

# Operators that write to an argument though their schema does not mark it: the arguments, and the argument that says whether (-1:
# always). Collectives have no marks at all.
SILENT_WRITES: dict[str, tuple[list[int], int]] = {
    "aten::native_batch_norm": ([3, 4], 5),
    "aten::cudnn_batch_norm": ([3, 4], 5),
    "aten::miopen_batch_norm": ([3, 4], 5),
    "aten::batch_norm_update_stats": ([1, 2], -1),
    "aten::batch_norm_gather_stats": ([3, 4], -1),
    "aten::batch_norm_gather_stats_with_counts": ([3, 4], -1),
    "aten::_copy_from": ([1], -1),
    "aten::_copy_from_and_resize": ([1], -1),
    "c10d::broadcast_": ([0], -1),
    "c10d::allreduce_": ([0], -1),
    "c10d::allreduce_coalesced_": ([0], -1),
    "c10d::allgather_": ([0], -1),
    "c10d::_allgather_base_": ([0], -1),
    "c10d::allgather_coalesced_": ([0], -1),
    "c10d::allgather_into_tensor_coalesced_": ([0], -1),
    "c10d::reduce_": ([0], -1),
    "c10d::reduce_scatter_": ([0], -1),
    "c10d::_reduce_scatter_base_": ([0], -1),
    "c10d::reduce_scatter_tensor_coalesced_": ([0], -1),
    "c10d::gather_": ([0], -1),
    "c10d::scatter_": ([0], -1),
    "c10d::alltoall_": ([0], -1),
    "c10d::alltoall_base_": ([0], -1),
    "c10d::recv_": ([0], -1),
    "c10d::recv_any_source_": ([0], -1),
}

# Namespaces whose operators compute nothing.
SKIPPED = {"profiler", "prim"}

# Namespaces whose operators go on with their tensors after they returned, so those must not leave in this step.
ASYNCHRONOUS = {"c10d", "_c10d_functional"}

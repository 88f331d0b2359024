"""The operator library: common operators written in the tensor language.

Each is a short function from tensors to a tensor; `name` names the result. Compose
them, or read one and write your own. Weights of convolutions are (O, I, H, W) with
layout "NCHW" and (H, W, I, O) with "NHWC", and so on for one and three dimensions.
"""

from ansor.te.ops.activation import (
    bias_add,
    elu,
    gelu,
    hard_swish,
    leaky_relu,
    relu,
    relu6,
    sigmoid,
    silu,
    tanh,
)
from ansor.te.ops.attention import attention, embedding
from ansor.te.ops.conv import (
    capsule_conv2d,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    depthwise_conv2d,
    group_conv2d,
)
from ansor.te.ops.elementwise import add, divide, maximum, minimum, multiply, subtract
from ansor.te.ops.matmul import batch_matmul, dense, einsum, matmul
from ansor.te.ops.norm import (
    batch_norm,
    layer_norm,
    log_softmax,
    matrix_norm,
    rms_norm,
    softmax,
)
from ansor.te.ops.pool import avg_pool, global_avg_pool, global_max_pool, max_pool, pool
from ansor.te.ops.reduce import reduce_max, reduce_mean, reduce_min, reduce_sum
from ansor.te.ops.shape import (
    concat,
    flatten,
    pad,
    reshape,
    slice,
    split,
    transpose,
)

__all__ = [
    "add", "attention", "avg_pool", "batch_matmul", "batch_norm", "bias_add",
    "capsule_conv2d", "concat", "conv1d", "conv2d", "conv2d_transpose", "conv3d",
    "dense", "depthwise_conv2d", "divide", "einsum", "elu", "embedding", "flatten",
    "gelu", "global_avg_pool", "global_max_pool", "group_conv2d", "hard_swish",
    "layer_norm", "leaky_relu", "log_softmax", "matmul", "matrix_norm", "max_pool",
    "maximum", "minimum", "multiply", "pad", "pool", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_sum", "relu", "relu6", "reshape", "rms_norm", "sigmoid",
    "silu", "slice", "softmax", "split", "subtract", "tanh", "transpose",
]  # fmt: skip

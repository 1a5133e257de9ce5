"""What each operator of PyTorch's dispatcher is in the vocabulary of kinds; others keep their own name."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch

# (kind, options, weights as (part, tensor, shape))
Role = Tuple[str, torch.Tensor, Sequence[int]]
Described = Tuple[str, Dict[str, Any], List[Role]]

_VIEWS = """alias as_strided chunk detach expand lift_fresh narrow permute select slice split split_with_sizes squeeze t
    transpose unbind unfold unsqueeze view _reshape_alias _unsafe_view"""
VIEWS = frozenset(_VIEWS.split())
# They make constants or bookkeeping, not results computed from the input.
_IGNORED = """arange bernoulli bernoulli_ empty empty_like empty_strided eye fill_ full full_like is_same_size new_empty
    new_full new_ones new_zeros normal_ ones ones_like rand rand_like randn randn_like resize_ scalar_tensor set_
    sym_size uniform_ zero_ zeros zeros_like"""
IGNORED = frozenset(_IGNORED.split())
GROUPS = {
    "add": "add sub rsub",
    "multiply": "mul div",
    "softmax": "_softmax _log_softmax _safe_softmax",
    "elementwise": "abs bitwise_and bitwise_not bitwise_or clamp clamp_max clamp_min cos eq erf exp expm1 floor ge gt "
    "hardtanh le log log1p logical_and logical_not logical_or lt masked_fill maximum minimum ne neg pow reciprocal "
    "round rsqrt sign sin sqrt threshold where",
    "global_avg_pool": "mean sum amax amin max min",
    "concat": "cat stack",
    "move": "clone copy _to_copy constant_pad_nd contiguous embedding flip gather index index_select pixel_shuffle "
    "reflection_pad1d reflection_pad2d repeat replication_pad2d roll tril triu",
    "dropout": "native_dropout",
    "upsample": "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
}
ACTIVATIONS = {
    "relu": "relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "gelu": "gelu",
    "elu": "elu",
    "leaky_relu": "leaky_relu",
    "hardswish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
    "glu": "glu",
    "softplus": "softplus",
    "mish": "mish",
    "log_sigmoid_forward": "log_sigmoid",
    "_prelu_kernel": "prelu",
}
# FLOPs for each input of what makes few numbers of many: squares and sums, exponentials and sums.
REDUCTIONS = {"var": 4, "std": 4, "var_mean": 4, "linalg_vector_norm": 2, "logsumexp": 3}


def describe(operator: str, args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
    """Kind, options and weights of one call."""
    plain = operator if operator in READERS else operator.rstrip("_")
    if plain in READERS:
        return READERS[plain](args, learned, data)
    if plain in ACTIVATIONS:
        return "activation", {"function": ACTIVATIONS[plain]}, []
    if plain in REDUCTIONS:
        return "reduce", {"per_input": REDUCTIONS[plain]}, _by_place(learned)
    return KINDS.get(plain, "aten.%s" % operator), {}, _by_place(learned)


def _by_place(learned: List[torch.Tensor]) -> List[Role]:
    return [("input%d" % i, tensor, tensor.shape) for i, tensor in enumerate(learned)]


def _roles(learned: List[torch.Tensor], **parts: Any) -> List[Role]:
    """The parts that are learned."""
    known = {id(tensor) for tensor in learned}
    return [(part, tensor, tensor.shape) for part, tensor in parts.items() if id(tensor) in known]


def _convolution(args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
    kind = "conv_transpose" if args[6] else "conv"
    return kind, {}, _roles(learned, weight=args[1], bias=args[2])


def _product(left: torch.Tensor, right: torch.Tensor, bias: Any, learned: List[torch.Tensor]) -> Described:
    known = {id(tensor) for tensor in learned}
    biases = _roles(learned, bias=bias)
    if id(right) in known:
        # The right factor is (features, units); a weight is (units, features).
        return "dense", {}, [("weight", right, (*right.shape[:-2], right.shape[-1], right.shape[-2])), *biases]
    if id(left) in known:
        return "dense", {}, [("weight", left, left.shape), *biases]
    return "matmul", {}, biases


def _added_product(args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
    """A product of two batches of matrices, added to something: a mask, or scores so far."""
    kind, options, roles = _product(args[1], args[2], None, learned)
    factors = [tensor for tensor in data if tensor is args[1] or tensor is args[2]]
    return kind, dict(options, added=True, data=factors), roles


def _norm(kind: str, weight: int) -> Callable[..., Described]:
    def read(args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
        return kind, {}, _roles(learned, weight=args[weight], bias=args[weight + 1])

    return read


def _pool(kind: str) -> Callable[..., Described]:
    def read(args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
        dimensions = args[0].dim() - 2
        kernel = [args[1]] if isinstance(args[1], int) else list(args[1])
        return kind, {"kernel": kernel * dimensions if len(kernel) == 1 else kernel}, []

    return read


def _adaptive(args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
    return "adaptive_avg_pool", {"outputs": list(args[1])}, []


def _attention(args: Sequence[Any], learned: List[torch.Tensor], data: List[torch.Tensor]) -> Described:
    query, key, value = args[:3]
    known = {id(tensor) for tensor in data}
    if any(id(tensor) not in known for tensor in (query, key, value)):
        return "attention with learned positions", {}, _by_place(learned)
    heads, positions = query.shape[1], query.shape[2]
    flat = [[tensor.shape[0], tensor.shape[1] * tensor.shape[3], tensor.shape[2]] for tensor in (query, key, value)]
    output = [query.shape[0], heads * value.shape[3], positions]
    return "attention", {"heads": heads, "input_shapes": flat, "output_shape": output, "data": [query, key, value]}, []


KINDS = {operator: kind for kind, operators in GROUPS.items() for operator in operators.split()}
READERS: Dict[str, Callable[[Sequence[Any], List[torch.Tensor], List[torch.Tensor]], Described]] = {
    "convolution": _convolution,
    "addmm": lambda args, learned, data: _product(args[1], args[2], args[0], learned),
    "mm": lambda args, learned, data: _product(args[0], args[1], None, learned),
    "bmm": lambda args, learned, data: _product(args[0], args[1], None, learned),
    "baddbmm": _added_product,
    "native_batch_norm": _norm("batch_norm", 1),
    "_native_batch_norm_legit": _norm("batch_norm", 1),
    "native_layer_norm": _norm("layer_norm", 2),
    "native_group_norm": _norm("layer_norm", 1),
    "max_pool1d": _pool("max_pool"),
    "max_pool2d_with_indices": _pool("max_pool"),
    "max_pool3d_with_indices": _pool("max_pool"),
    "avg_pool1d": _pool("avg_pool"),
    "avg_pool2d": _pool("avg_pool"),
    "avg_pool3d": _pool("avg_pool"),
    "_adaptive_avg_pool2d": _adaptive,
    "_adaptive_avg_pool3d": _adaptive,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "scaled_dot_product_attention": _attention,
}

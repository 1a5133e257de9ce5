"""Plain JAX, as a person writes it by hand: pure functions and one jitted step with donated weights."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec


def conv(x, kernel, stride=1, padding="SAME"):
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def halved(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


def normed(x, weight, bias):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * weight + bias, (mean, variance)


def weights(rng, *shapes):
    return [jnp.asarray(rng.standard_normal(shape).astype(np.float32) * 0.05) for shape in shapes]


def lenet5_weights(rng):
    shapes = [(5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,), (400, 120), (120,), (120, 84), (84,), (84, 10), (10,)]
    return weights(rng, *shapes)


def lenet5(w, x):
    x = halved(jnp.tanh(conv(x, w[0]) + w[1]))
    x = halved(jnp.tanh(conv(x, w[2], padding="VALID") + w[3]))
    x = jnp.tanh(x.reshape(x.shape[0], -1) @ w[4] + w[5])
    return jnp.tanh(x @ w[6] + w[7]) @ w[8] + w[9], []


def _units():
    """Kernel, input and output channels, stride of every convolution of ResNet-18, in the order of use."""
    units, before = [(3, 3, 64, 1)], 64
    for filters in (64, 128, 256, 512):
        for stride in (1 if filters == 64 else 2, 1):
            units += [(3, before, filters, stride), (3, filters, filters, 1)]
            units += [(1, before, filters, stride)] * (stride == 2)
            before = filters
    return units


def resnet18_weights(rng):
    made = [
        [*weights(rng, (k, k, before, after)), jnp.ones(after), jnp.zeros(after)] for k, before, after, _ in _units()
    ]
    return [made, weights(rng, (512, 10), (10,))]


def resnet18(w, x):
    units, seen = iter(zip(w[0], _units(), strict=True)), []

    def unit(x):
        (kernel, weight, bias), (_, _, _, stride) = next(units)
        made, statistics = normed(conv(x, kernel, stride), weight, bias)
        seen.append(statistics)
        return made

    x = jax.nn.relu(unit(x))
    for block in range(8):
        made = unit(jax.nn.relu(unit(x)))
        x = jax.nn.relu(made + (unit(x) if block in (2, 4, 6) else x))
    return x.mean((1, 2)) @ w[1][0] + w[1][1], seen


def make(network, rate, threads, ranks=None):
    """A training step on a batch of NumPy arrays; it is done when it returns. Several ranks are one mesh."""
    run, begin = {"lenet5": (lenet5, lenet5_weights), "resnet18": (resnet18, resnet18_weights)}[network]
    state = [begin(np.random.default_rng(1)), None]

    def loss_of(w, images, labels):
        output, seen = run(w, images)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(output), labels[:, None], 1)), seen

    def train(w, running, images, labels):
        images = jnp.transpose(images, (0, 2, 3, 1))
        (loss, seen), gradients = jax.value_and_grad(loss_of, has_aux=True)(w, images, labels)
        if ranks is not None:
            gradients = lax.pmean(gradients, "ranks")
        running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, seen)
        return loss, jax.tree.map(lambda one, slope: one - rate * slope, w, gradients), running

    placed = train
    if ranks is not None:
        mesh = Mesh(ranks.mesh.devices, ("ranks",))
        same, mine = NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec("ranks"))
        specs = {"in_specs": (Spec(), Spec(), Spec("ranks"), Spec("ranks")), "out_specs": Spec(), "check_vma": False}
        placed = jax.shard_map(train, mesh=mesh, **specs)
        state[0] = jax.tree.map(lambda one: jax.make_array_from_process_local_data(same, np.asarray(one)), state[0])
    placed = jax.jit(placed, donate_argnums=(0, 1))

    def step(samples, labels):
        if state[1] is None:
            state[1] = jax.tree.map(
                lambda one: np.zeros(one.shape, np.float32), jax.eval_shape(run, state[0], _like(samples))[1]
            )
            if ranks is not None:
                state[1] = jax.tree.map(lambda one: jax.make_array_from_process_local_data(same, one), state[1])
        labels = labels.astype(np.int32)
        if ranks is not None:
            samples, labels = (jax.make_array_from_process_local_data(mine, one) for one in (samples, labels))
        loss, *state[:] = placed(*state, samples, labels)
        jax.block_until_ready((loss, state))

    return step


def _like(samples):
    return jax.ShapeDtypeStruct((samples.shape[0], *samples.shape[2:], samples.shape[1]), np.float32)

"""Plain MXNet, as a person writes it by hand: hybridised Gluon blocks and a Trainer."""

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn


def lenet5():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(6, 5, padding=2, activation="tanh"), nn.AvgPool2D(2), nn.Conv2D(16, 5, activation="tanh"),
        nn.AvgPool2D(2), nn.Flatten(), nn.Dense(120, activation="tanh"), nn.Dense(84, activation="tanh"), nn.Dense(10),
    )  # fmt: skip
    return net


class Block(nn.HybridBlock):
    def __init__(self, filters, stride, projected):
        super().__init__()
        self.conv1 = nn.Conv2D(filters, 3, stride, 1, use_bias=False)
        self.norm1 = nn.BatchNorm()
        self.conv2 = nn.Conv2D(filters, 3, 1, 1, use_bias=False)
        self.norm2 = nn.BatchNorm()
        self.shortcut = nn.HybridSequential()
        if projected:
            self.shortcut.add(nn.Conv2D(filters, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        made = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(made)) + self.shortcut(x))


def resnet18():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    for filters in (64, 128, 256, 512):
        net.add(Block(filters, 1 if filters == 64 else 2, filters != 64), Block(filters, 1, False))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(10))
    return net


class Named(mx.kvstore.KVStore):
    """The ranks' store with words for numbers: steplab's keys in it are words, and a store takes one kind only."""

    def __init__(self, store):
        vars(self).update(vars(store))

    def __del__(self):
        """The handle is another's."""

    def init(self, key, value):
        super().init(f"bare{key}", value)

    def broadcast(self, key, value, out, priority=0):
        super().broadcast(f"bare{key}", value, out, priority)

    def push(self, key, value, priority=0):
        super().push(f"bare{key}", value, priority)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        super().pull(f"bare{key}", out, priority, ignore_sparse)

    def pushpull(self, key, value, out=None, priority=0):
        super().pushpull(f"bare{key}", value, out, priority)


def make(network, rate, threads, ranks=None):
    """A training step on a batch of NumPy arrays; it is done when it returns. Several ranks share a store."""
    net = {"lenet5": lenet5, "resnet18": resnet18}[network]()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize(static_alloc=True, static_shape=True)
    store, own = (None, None) if ranks is None else (Named(ranks.store.store), False)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate}, kvstore=store, update_on_kvstore=own)
    share = 1 if ranks is None else store.num_workers

    def step(samples, labels):
        images, wanted = mx.nd.array(samples), mx.nd.array(labels, dtype="float32")
        with autograd.record():
            loss = loss_of(net(images), wanted).mean()
        loss.backward()
        trainer.step(share)
        mx.nd.waitall()

    return step

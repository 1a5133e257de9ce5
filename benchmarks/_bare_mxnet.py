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


def make(network, rate, threads):
    """A training step on a batch of NumPy arrays; it is done when it returns."""
    net = {"lenet5": lenet5, "resnet18": resnet18}[network]()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate}, kvstore=None)

    def step(samples, labels):
        images, wanted = mx.nd.array(samples), mx.nd.array(labels, dtype="float32")
        with autograd.record():
            loss = loss_of(net(images), wanted).mean()
        loss.backward()
        trainer.step(1)
        mx.nd.waitall()

    return step

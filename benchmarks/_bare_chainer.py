"""Plain Chainer, as a person writes it by hand: a chain, define by run, and an optimiser."""

import chainer
import chainer.functions as F  # noqa: N812 - as every Chainer user knows it
import chainer.links as L  # noqa: N812
import numpy as np


class LeNet5(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1, self.conv2 = L.Convolution2D(1, 6, 5, pad=2), L.Convolution2D(6, 16, 5)
            self.dense3, self.dense4, self.dense5 = L.Linear(400, 120), L.Linear(120, 84), L.Linear(84, 10)

    def forward(self, x):
        x = F.average_pooling_2d(F.tanh(self.conv1(x)), 2)
        x = F.average_pooling_2d(F.tanh(self.conv2(x)), 2)
        return self.dense5(F.tanh(self.dense4(F.tanh(self.dense3(x)))))


class Unit(chainer.Chain):
    def __init__(self, before, after, kernel, stride):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(before, after, kernel, stride, kernel // 2, nobias=True)
            self.norm = L.BatchNormalization(after)

    def forward(self, x):
        return self.norm(self.conv(x))


class ResNet18(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.stem, self.units, self.dense = Unit(3, 64, 3, 1), chainer.ChainList(), L.Linear(512, 10)
        before = 64
        for filters in (64, 128, 256, 512):
            for stride in (1 if filters == 64 else 2, 1):
                self.units.append(Unit(before, filters, 3, stride))
                self.units.append(Unit(filters, filters, 3, 1))
                if stride == 2:
                    self.units.append(Unit(before, filters, 1, 2))
                before = filters

    def forward(self, x):
        units = iter(self.units)
        x = F.relu(self.stem(x))
        for block in range(8):
            made = F.relu(next(units)(x))
            made = next(units)(made)
            x = F.relu(made + (next(units)(x) if block in (2, 4, 6) else x))
        return self.dense(F.mean(x, axis=(2, 3)))


def make(network, rate, threads, ranks=None):
    """A training step on a batch of NumPy arrays; it is done when it returns. Several ranks have a communicator."""
    net = {"lenet5": LeNet5, "resnet18": ResNet18}[network]()
    optimizer = chainer.optimizers.SGD(lr=rate)
    if ranks is not None:
        import chainermn

        optimizer = chainermn.create_multi_node_optimizer(optimizer, ranks.communicator)
    optimizer.setup(net)

    def step(samples, labels):
        loss = F.softmax_cross_entropy(net(samples), labels.astype(np.int32))
        net.cleargrads()
        loss.backward()
        optimizer.update()

    return step

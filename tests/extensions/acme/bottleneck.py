"""A dense network through a narrow middle."""

from steplab_worker.graph import Builder
from steplab_worker.options import Option

INPUT = (1, 28, 28)
CLASSES = 10
PARAMETERS = 784 * 16 + 16 + 16 * 10 + 10
OPTIONS = {"width": Option(16, "units of the middle", low=1, high=4096, shapes=False)}


def build(input_shape, classes, width):
    """Two dense layers for samples of any shape."""
    net = Builder("bottleneck", input_shape)
    net.add("flatten", "flatten")
    net.dense("narrow", width)
    net.activation("act", "tanh")
    net.dense("classes", classes)
    return net.graph()

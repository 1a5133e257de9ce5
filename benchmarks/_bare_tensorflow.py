"""Plain TensorFlow, as a person writes it by hand: Keras layers and one tf.function per step."""

import tensorflow as tf
from tensorflow.keras import layers


def lenet5():
    tanh = {"activation": "tanh"}
    return tf.keras.Sequential([
        layers.Input((28, 28, 1)),
        layers.Conv2D(6, 5, padding="same", **tanh), layers.AveragePooling2D(2),
        layers.Conv2D(16, 5, **tanh), layers.AveragePooling2D(2), layers.Flatten(),
        layers.Dense(120, **tanh), layers.Dense(84, **tanh), layers.Dense(10),
    ])  # fmt: skip


def conv_norm(x, filters, kernel, stride=1):
    x = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)


def resnet18():
    given = layers.Input((32, 32, 3))
    x = layers.ReLU()(conv_norm(given, 64, 3))
    for stage, filters in enumerate((64, 128, 256, 512)):
        for stride in (2 if stage else 1, 1):
            made = conv_norm(layers.ReLU()(conv_norm(x, filters, 3, stride)), filters, 3)
            shortcut = conv_norm(x, filters, 1, stride) if stride == 2 else x
            x = layers.ReLU()(layers.Add()([made, shortcut]))
    return tf.keras.Model(given, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def make(network, rate, threads, ranks=None):
    """A training step on a batch of NumPy arrays; it is done when it returns. A process has one strategy for ever."""
    strategy = tf.distribute.get_strategy() if ranks is None else ranks.strategy
    with strategy.scope():
        net = {"lenet5": lenet5, "resnet18": resnet18}[network]()
        optimizer = tf.keras.optimizers.SGD(rate)
        loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def replica(samples, labels):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of(labels, net(samples, training=True)))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    @tf.function
    def train(samples, labels):
        return strategy.run(replica, (samples, labels)) if ranks is not None else replica(samples, labels)

    def step(samples, labels):
        images = tf.transpose(tf.convert_to_tensor(samples), [0, 2, 3, 1])
        return train(images, tf.convert_to_tensor(labels))

    return step

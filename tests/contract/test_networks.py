"""What every network must satisfy; a new file in steplab_worker/networks is tested at once, and so is an extension."""

import pytest

from steplab.core import catalogue
from steplab.core.resolution import data_spec, impossible, resolve
from steplab.costs.counting import COUNTING
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab_worker import data
from steplab_worker.graph import GraphError, size
from steplab_worker.layers import KINDS
from steplab_worker.options import Option
from steplab_worker.weights import initial_weights

BATCH = 2
NAMES = catalogue.network_names()
IMAGES = [name for name in NAMES if catalogue.network_module(name).INPUT[0] == 3]
# Volumes are counted in PyTorch at a smaller size, to be quick.
SMALLER = {"resattnet3d18": (1, 32, 32, 32)}
LARGE = 10_000_000  # parameters; such a network would take seconds, bert_base a minute
USUAL = [(name, SMALLER.get(name, catalogue.network_module(name).INPUT)) for name in NAMES]
OTHERS = [(name, (3, extent, extent)) for name in IMAGES for extent in (32, 64)]
SIZES = USUAL + [one for one in OTHERS if one not in USUAL]


@pytest.fixture(scope="session")
def counted(in_torch, request):
    """What PyTorch and its counter say, at every size, of every network that is looked at."""
    selected = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    sizes = [(name, shape) for name, shape in SIZES if name in selected]
    # Small networks really run at their usual size. Otherwise PyTorch only follows the shapes, which is quicker; that
    # large ones run, too, is shown at smaller inputs in test_frameworks.py.
    run = [pair for pair in USUAL if catalogue.network_module(pair[0]).PARAMETERS < LARGE]
    jobs = [
        [name, shape, BATCH, "cpu" if (name, shape) in run else "meta", catalogue.network_file(name)]
        for name, shape in sizes
    ]
    answers = in_torch("flops", {"networks": jobs})["networks"]
    return dict(zip(sizes, answers, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_published_ones(name):
    assert catalogue.build_network(name).parameters == catalogue.network_module(name).PARAMETERS


@pytest.mark.parametrize("name", NAMES)
def test_the_file_says_what_it_is(name):
    module = catalogue.network_module(name)
    assert module.__doc__
    assert module.build.__doc__
    assert all(isinstance(option, Option) and not option.problem(option.default) for option in module.OPTIONS.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_level_of_every_option_builds(name):
    for key, option in catalogue.network_module(name).OPTIONS.items():
        for level in option.levels or (option.default,):
            try:
                graph = catalogue.build_network(name, {key: level})
            except GraphError as error:  # two options may exclude each other, but must say so
                assert key in str(error)
            else:
                assert cost(from_graph(graph, 1)).unknown == ()


@pytest.mark.parametrize(("name", "extent"), [(name, extent) for name in IMAGES for extent in (32, 64, 224)])
def test_image_networks_build_for_cifar_tinyimagenet_and_imagenet(name, extent):
    for classes in (10, 200):
        assert catalogue.build_network(name, input_shape=(3, extent, extent), classes=classes).output_shape == (
            classes,
        )


@pytest.mark.parametrize("name", NAMES)
def test_every_data_set_fits_or_is_refused_in_words(name):
    for dataset in data.datasets():
        config = {"network": name, "dataset": dataset}
        reason = impossible(config)
        about = data_spec(resolve(config))
        unsupported = (dataset, str(about.shape), str(about.classes))
        assert not reason or any(what in reason for what in unsupported), reason


@pytest.mark.parametrize("name", NAMES)
def test_initial_weights_cover_every_weight(name):
    graph = catalogue.build_network(name, input_shape=SMALLER.get(name))
    trainable = {(layer.name, key) for layer in graph.layers for key in layer.weights}
    made = initial_weights(graph, seed=0)
    assert trainable <= set(made)
    assert sum(made[key].size for key in trainable) == graph.parameters
    assert all("." not in layer.name for layer in graph.layers)


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_of_every_layer_is_known_and_adds_up(name):
    made = cost(from_graph(catalogue.build_network(name), BATCH))
    assert made.unknown == ()
    assert made.parameters == catalogue.network_module(name).PARAMETERS
    assert made.totals.forward_flops == sum(layer.totals.forward_flops for layer in made.layers)


@pytest.mark.parametrize("name", NAMES)
def test_flops_grow_with_the_batch_and_parameters_do_not(name):
    one, three = (cost(from_graph(catalogue.build_network(name), batch)) for batch in (1, 3))
    assert three.totals.forward_flops == 3 * one.totals.forward_flops
    assert three.totals.backward_flops == 3 * one.totals.backward_flops
    assert three.parameters == one.parameters


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_counted(kind):
    assert kind in COUNTING


@pytest.mark.parametrize(("name", "shape"), SIZES)
def test_pytorch_has_the_same_parameters_and_output(counted, name, shape):
    graph, said = catalogue.build_network(name, input_shape=shape), counted[name, shape]
    assert said["parameters"] == graph.parameters
    assert said["output"] == [BATCH, *graph.output_shape]


@pytest.mark.parametrize(("name", "shape"), SIZES)
def test_forward_flops_equal_those_of_pytorchs_counter(counted, name, shape):
    totals = cost(from_graph(catalogue.build_network(name, input_shape=shape), BATCH)).totals
    assert totals.forward_matmul_flops == counted[name, shape]["forward"]


@pytest.mark.parametrize(("name", "shape"), SIZES)
def test_forward_and_backward_flops_equal_those_of_pytorchs_counter(counted, name, shape):
    graph = catalogue.build_network(name, input_shape=shape)
    totals = cost(from_graph(graph, BATCH)).totals
    both = totals.forward_matmul_flops + totals.backward_matmul_flops
    assert both == counted[name, shape]["both"] - too_much_for_groups(graph)


def too_much_for_groups(graph):
    """What PyTorch's counter adds by mistake to the backward pass of grouped convolutions.

    For the weight's gradient it multiplies all channels by all filters, as if there were no groups: a depthwise
    convolution of g channels is counted g times. The hand count is that of the forward pass: each element of the
    weight meets each output position of its filter once, 2 · batch · outputs · (channels/groups) · kernel.
    """
    grouped = [layer for layer in graph.layers if layer.kind == "conv" and layer.options["groups"] > 1]
    by_hand = {layer.name: 2 * BATCH * size(layer.shape) * size(layer.weights["weight"][1:]) for layer in grouped}
    return sum((layer.options["groups"] - 1) * by_hand[layer.name] for layer in grouped)

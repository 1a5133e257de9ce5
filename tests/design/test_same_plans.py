"""Designs plan what they planned when their records were written: the same trials, in the same order.

The digests were made by the first version of the code, which made every trial of a plan at once; those of shipped
studies when their files were written.
"""

# ruff: noqa: E501 - a study stands on one line, so that it can be compared with its neighbours
from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from steplab.core.errors import StudyError
from steplab.design.plan import plan
from steplab.study.file import parse_study

STUDIES = Path(__file__).parents[2] / "studies"
LENET = 'kernel_size = [2, 3, 4, 5]\npool_size = [2, 3, 4, 5]\nstride = [1, 2, 3]\npadding = ["valid", "same"]\n'
FILTERS = "filters = { low = 4, high = 64, scale = 'log' }\n"
RANGES = (
    "batch_size = { low = 1, high = 4096, scale = 'log' }\nworkers = [1, 2, 4]\n"
    "learning_rate = { low = 1e-4, high = 1.0, scale = 'log' }\n"
    "threads = { low = 1, high = 64 }\nnoise = { low = 0.0, high = 0.3 }\n"
)

# Factors, the rest of the file, the number of trials, a digest of their ids and one of their configurations.
PLANNED = {
    "factorial": (
        'framework = ["synthetic"]\nbatch_size = [1, 2, 4, 8]\nworkers = [1, 2, 3]\nstrategy = ["sync", "accumulate:4"]\n',
        "seed = 7\n",
        72,
        "519af3ec23234828",
        "b33a7c8d5339b961",
    ),
    "factorial given": (
        'framework = ["synthetic"]\nbatch_size = [1, 2, 4, 8]\nworkers = [1, 2, 3]\n',
        'order = "given"\nreplicates = 2\n',
        24,
        "b4acc7a32b289c3c",
        "a4de2d1e2a6a5d37",
    ),
    "factorial with rules": (
        'framework = ["synthetic"]\nworkers = [1, 2, 3, 4]\nbatch_size = [8, 16, 32]\nlearning_rate = [0.1, 0.01]\n',
        "seed = 3\n[[exclude]]\nworkers = [3, 4]\nbatch_size = 8\n[[exclude]]\nlearning_rate = 0.1\nbatch_size = [16]\n",
        48,
        "470fe4fffa8df038",
        "90e6a675c3cc143d",
    ),
    "factors that do not apply": (
        'noise = [0.0, 0.1, 0.2]\nframework = ["synthetic", "replay", "torch"]\nnetwork = ["lenet5", "mlp"]\nkernel_size = [3, 5]\nworkers = [1, 2]\ncompile = [false, true]\n',
        'seed = 5\n[[exclude]]\nframework = "replay"\nnoise = 0.0\n[[exclude]]\nnetwork = "mlp"\nkernel_size = 3\nworkers = 2\n',
        108,
        "f2b2c0b7cf3a59d8",
        "fac33885f9189f18",
    ),
    "factors that do not apply, given": (
        'noise = [0.0, 0.1, 0.2]\nkernel_size = [3, 5]\nnetwork = ["lenet5", "mlp"]\nframework = ["replay", "synthetic"]\n',
        'order = "given"\n[[exclude]]\nframework = "replay"\nnoise = 0.0\n',
        36,
        "94de5b703a61b014",
        "7cbf6828666d65b0",
    ),
    "random": (
        'framework = ["synthetic"]\n' + RANGES,
        'type = "random"\nn = 300\nseed = 2\n',
        900,
        "c2c87faa6d3fde11",
        "37ee6c6205d434f4",
    ),
    "random of possible": (
        'framework = ["synthetic"]\n' + LENET + FILTERS,
        'type = "random"\nn = 200\nseed = 4\n[[exclude]]\nstride = 3\npadding = "same"\n',
        600,
        "bcfa521840636290",
        "247500ade7a45b7d",
    ),
    "random exhausted": (
        'framework = ["synthetic"]\nbatch_size = [1, 2, 3]\n',
        'type = "random"\nn = 50\n',
        9,
        "64016a224b4ab937",
        "46ac754ac3e84280",
    ),
    "random nearly exhausted": (
        'framework = ["synthetic"]\nbatch_size = [1, 2, 3, 4, 5, 6]\nworkers = [1, 2]\n',
        'type = "random"\nn = 10\nseed = 9\n[[exclude]]\nworkers = 2\nbatch_size = [1, 2]\n',
        30,
        "b181c15045f8c924",
        "574cdfb6d418eff1",
    ),
    "random that does not apply": (
        'framework = ["synthetic", "replay"]\nnoise = { low = 0.0, high = 1.0 }\nbatch_size = { low = 1, high = 20 }\n',
        'type = "random"\nn = 60\nseed = 11\n',
        144,
        "27ac65e810f18a3a",
        "7f3ff56b96340c70",
    ),
    "latin": (
        'framework = ["synthetic"]\n' + RANGES,
        'type = "latin"\nn = 300\nseed = 2\n',
        900,
        "a155306e12be3917",
        "92913b953aac7091",
    ),
    "latin of possible": (
        'framework = ["synthetic"]\n' + LENET + FILTERS,
        'type = "latin"\nn = 200\nseed = 4\n[[exclude]]\nstride = 3\npadding = "same"\n',
        600,
        "2d5f1f8c9e97b8a6",
        "7388a047135cda32",
    ),
    "latin that does not apply": (
        'framework = ["synthetic", "replay"]\nnoise = { low = 0.0, high = 1.0 }\nbatch_size = { low = 1, high = 20 }\nworkers = [1, 2]\n',
        'type = "latin"\nn = 60\nseed = 11\n',
        171,
        "48575ef5bca2728e",
        "eb504da2c3d163dc",
    ),
    "range with a rule": (
        'framework = ["synthetic"]\nbatch_size = { low = 1, high = 9 }\nworkers = [1, 2]\n',
        'type = "random"\nn = 12\nseed = 3\n[[exclude]]\nbatch_size = [3, 4, 5]\nworkers = 2\n',
        36,
        "160d3c2f6f4fc2a3",
        "88a9ca3391e6f541",
    ),
}
SHIPPED = {
    "alexnet-resnet18-roofline-full.toml": (30, "8792b4529a0e923b", "c447f9a6624d5edb"),
    "alexnet-resnet18-roofline-laptop.toml": (24, "28f33fe8953a6385", "63e70af928e7e890"),
    "demo.toml": (36, "29b98e1eabd068d7", "2942f7cdab0836e4"),
    "generic-model-mxnet-full.toml": (1500, "0a2c561a73ba299e", "b042f590a83c0965"),
    "generic-model-mxnet-laptop.toml": (150, "5c0f3ae28130768e", "b869d938103e7aa5"),
    "generic-model-tensorflow-full.toml": (1500, "d25d98f1348dd209", "3bab19be83e1525f"),
    "generic-model-tensorflow-laptop.toml": (150, "bf6ad19417b8cf12", "5b7e25ab1bf791b5"),
    "generic-model-torch-full.toml": (1500, "6289de7af831a577", "f3664bf253fcf0e1"),
    "generic-model-torch-laptop.toml": (150, "26c6f58e4292ff12", "7a18890acd802aa1"),
    "inference-engines-full.toml": (504, "a857372e1e9a4b0a", "3df24b65e86d2ad3"),
    "inference-engines-laptop.toml": (123, "3c4f5c2bdd9f6ff5", "d9bdff4a2eb985c4"),
    "resattnet3d-full.toml": (1500, "2089f8491a01df8c", "19c320c4b9bd7496"),
    "resattnet3d-laptop.toml": (100, "c18021b98f6f2615", "de9b002437ffab5f"),
    "ssgd-frameworks-full.toml": (225, "4ef328de01e4ae2f", "3f4c8adce75e450f"),
    "ssgd-frameworks-laptop.toml": (180, "382ae2debea800df", "4e74066a84945f92"),
    "tf-sync-vs-accumulate-full.toml": (180, "5a8c10659e07aa76", "65aeafd28f571cb7"),
    "tf-sync-vs-accumulate-laptop.toml": (72, "350f07b57b0e1dbe", "40ce585051722ab9"),
    "torch-vs-tensorflow-full.toml": (96, "fed5d817ff6de893", "93374ee875020671"),
    "torch-vs-tensorflow-laptop.toml": (48, "a6a415b36423f1d3", "41fcb3c82a05f9df"),
    "train-batch-size.toml": (24, "50563a2872c2b103", "68e6f1b1f247c015"),
    "train-frameworks.toml": (15, "f1c9c9fd5cf31521", "6c8790c7fdef0032"),
}
REFUSED = {
    "impossible": (
        'framework = ["synthetic"]\n' + LENET,
        "\n",
        "s.toml, factors: impossible: framework=synthetic, kernel_size=2, pool_size=2, stride=3, padding=valid: pool2: a window of 2x2 does not fit an input of 1x1 (and 58 more such combinations); leave it out with an [[exclude]] rule or change a level",
    ),
    "impossible batch": (
        'framework = ["synthetic"]\nglobal_batch_size = [8, 9, 10]\nworkers = [1, 2, 4]\n',
        "\n",
        "s.toml, factors: impossible: framework=synthetic, global_batch_size=9, workers=2: a global batch of 9 cannot be divided among 2 workers (and 2 more such combinations); leave it out with an [[exclude]] rule or change a level",
    ),
    "nothing left": (
        'framework = ["synthetic"]\nworkers = [1, 2]\n',
        "\n[[exclude]]\nworkers = [1, 2]\n",
        "s.toml: no configuration is left to run; loosen [[exclude]] or levels",
    ),
    "nothing left of a draw": (
        'framework = ["synthetic"]\nkernel_size = 64\npadding = "valid"\n',
        'type = "random"\nn = 3\n',
        "s.toml: no configuration is left to run; loosen [[exclude]] or levels",
    ),
}


def text(factors: str, design: str) -> str:
    return f'[study]\nname = "x"\n[factors]\n{factors}[design]\n{design}'


def digests(study: str) -> tuple[int, str, str]:
    trials = plan(parse_study(study, Path("s.toml")))
    ids = "".join(trial.id for trial in trials)
    configurations = json.dumps([[list(trial.config.items()), trial.replicate] for trial in trials])
    made = (hashlib.sha256(content.encode()).hexdigest()[:16] for content in (ids, configurations))
    return (len(trials), *made)  # type: ignore[return-value]


@pytest.mark.parametrize("name", PLANNED)
def test_a_design_plans_the_same_trials_in_the_same_order(name: str) -> None:
    factors, design, *expected = PLANNED[name]
    assert digests(text(factors, design)) == tuple(expected)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_study_plans_the_same_trials_in_the_same_order(name: str) -> None:
    assert digests((STUDIES / name).read_text()) == SHIPPED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_study_that_cannot_run_is_told_the_same_sentence(name: str) -> None:
    factors, design, sentence = REFUSED[name]
    with pytest.raises(StudyError) as error:
        plan(parse_study(text(factors, design), Path("s.toml")))
    assert str(error.value) == sentence

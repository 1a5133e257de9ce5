"""A model from another distribution: the package that docs/models.md shows, listed, fitted, saved, loaded, missed.

That it keeps the contract of models is tested in `tests/extensions/test_contracts.py`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import steplab.models
from steplab.core import extensions
from steplab.core.errors import ModelError
from steplab.models import load_model_class, model_from_document, model_names, model_summaries, offered

ROOT = Path(__file__).parents[2]
BLOCKS = re.compile(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", re.M | re.S)
CACHES = (
    extensions.extensions, extensions.entry_points, extensions._all_points, steplab.models._builtin,
    steplab.models._models,
)  # fmt: skip


def shown_package():
    """The files of the package on the page."""
    return dict(BLOCKS.findall((ROOT / "docs" / "models.md").read_text()))


def install(site, files, distribution, version, points):
    """Put modules and their metadata into a folder, as an installer would."""
    metadata = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (metadata / "entry_points.txt").write_text("[steplab.models]\n" + "".join(lines))
    for name, text in files.items():
        (site / name).write_text(text)
    return site


@pytest.fixture
def site(tmp_path):
    """A folder with the package of the page installed in it."""
    files = shown_package()
    project = tomllib.loads(files.pop("pyproject.toml"))["project"]
    points = project["entry-points"]["steplab.models"]
    return install(tmp_path / "site", files, project["name"], project["version"], points)


def forget():
    """What was found before, in this process."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture
def on_path(monkeypatch):
    """Put a folder on the path for imports, and forget what was known before and after."""
    before = set(sys.modules)

    def put(folder):
        monkeypatch.syspath_prepend(folder)
        forget()

    yield put
    monkeypatch.undo()
    forget()
    for name in set(sys.modules) - before:
        if name.startswith(("saturating", "acme")):
            del sys.modules[name]


def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"filters": rng.choice([4.0, 8.0, 16.0], 40), "workers": rng.choice([1.0, 2.0, 4.0], 40)})
    return X, pd.Series(0.1 * (1 + X["filters"]) ** 0.7 / X["workers"] ** 0.5, name="t_iter")


def test_it_is_listed_without_being_imported(site, on_path):
    on_path(site)
    assert model_summaries()["saturating"].startswith("A saturating power law")
    assert offered("report")[-1] == "saturating"
    assert "saturating" in offered("compare") and "saturating" not in offered("auto")
    assert "saturating" not in sys.modules


def test_a_saved_one_names_its_package_and_loads_where_that_is_installed(site, on_path):
    on_path(site)
    X, y = table()
    model = load_model_class("saturating")().fit(X, y)
    document = json.loads(json.dumps(model.to_document()))
    assert document["provider"] == {"distribution": "saturating-models", "version": "1.0"}
    np.testing.assert_array_equal(model_from_document(document).predict(X), model.predict(X))


def test_where_its_package_is_missing_one_sentence_names_both(site):
    document = {"model": "saturating", "provider": {"distribution": "saturating-models", "version": "1.0"}}
    with pytest.raises(ModelError, match="'saturating' comes from the package 'saturating-models', which is not inst"):
        model_from_document(document)


def test_auto_may_choose_it_and_saves_its_package_too(site, on_path):
    X, y = table()
    on_path(site)
    document = load_model_class("auto")(among="saturating").fit(X, y).to_document()
    assert document["state"]["provider"]["distribution"] == "saturating-models"
    assert model_from_document(document).chosen_.name() == "saturating"
    shutil.rmtree(site)
    forget()
    with pytest.raises(ModelError, match="comes from the package 'saturating-models'"):
        model_from_document(document)


def test_another_package_cannot_pass_for_the_one_that_saved(site, on_path):
    on_path(site)
    document = {"model": "saturating", "provider": {"distribution": "other", "version": "1.0"}}
    with pytest.raises(ModelError, match="was saved by the package 'other', but here 'saturating-models' offers it"):
        model_from_document(document)


def test_a_file_imports_nothing_that_it_names_itself(tmp_path, on_path):
    (tmp_path / "acme_trap.py").write_text("raise SystemExit('imported')\n")
    on_path(tmp_path)
    for name in ("acme_trap", "acme-trap", "acme_trap:MODEL"):
        for provider in ({"distribution": "acme_trap"}, {"distribution": 3}, "acme_trap", None):
            with pytest.raises(ModelError):
                model_from_document({"model": name, "provider": provider, "state": {}})
    assert "acme_trap" not in sys.modules


BROKEN = {
    "a name of steplab's own": ("linear = acme", "MODEL = None", "linear", None),
    "no such module": ("mine = acme.nowhere", "MODEL = None", "mine", "there is no module"),
    "no model": ("mine = acme", "x = 1", "mine", "does not define MODEL"),
    "no class": ("mine = acme", "MODEL = 3", "mine", "no subclass of"),
    "fails at import": ("mine = acme", "MODEL = 1 / 0", "mine", "cannot be imported: division by zero"),
}


@pytest.mark.parametrize(("point", "text", "name", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_package_is_one_sentence_and_breaks_nothing_else(tmp_path, on_path, point, text, name, words):
    key, _, value = point.partition(" = ")
    on_path(install(tmp_path / "site", {"acme.py": text}, "acme-models", "2.0", {key: value}))
    assert "generic" in model_names()
    if words is None:
        assert load_model_class(name).__module__ == "steplab.models.linear"
        return
    with pytest.raises(ModelError, match=words) as caught:
        load_model_class(name)
    assert "acme-models" in str(caught.value)


def test_two_classes_of_one_module_have_their_own_names(tmp_path, on_path):
    text = "from steplab.models.linear import Linear\nclass A(Linear): pass\nclass B(Linear): pass\n"
    on_path(install(tmp_path / "site", {"acme.py": text}, "acme", "1.0", {"a": "acme:A", "b": "acme:B"}))
    assert [load_model_class(name).name() for name in ("a", "b")] == ["a", "b"]


def test_a_class_defined_elsewhere_must_be_named_where_it_is(tmp_path, on_path):
    files = {"acme.py": "from acme_law import MODEL\n"}
    files["acme_law.py"] = "from steplab.models.linear import Linear\nclass MODEL(Linear): pass\n"
    on_path(install(tmp_path / "site", files, "acme", "1.0", {"mine": "acme"}))
    with pytest.raises(ModelError, match="name the module that defines the class, acme_law"):
        load_model_class("mine")


def test_the_command_line_knows_it(site, tmp_path):
    X, y = table()
    X.assign(t_iter=y).to_csv(tmp_path / "times.csv", index=False)

    def steplab(*words, path=str(site)):
        command = [sys.executable, "-m", "steplab", *words]
        variables = os.environ | {"PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    fitted = steplab("fit", "times.csv", "--model", "saturating", "--out", "model.json", "--json")
    assert json.loads(fitted.stdout)["model"] == "saturating", fitted.stderr
    compared = steplab("compare", "times.csv", "--models", "saturating,linear", "--json")
    assert {row["model"] for row in json.loads(compared.stdout)["rows"]} == {"saturating", "linear"}, compared.stderr
    missing = steplab("predict", "model.json", "--at", "filters=8,workers=2", path="")
    assert missing.returncode == 1
    assert "comes from the package 'saturating-models'" in missing.stderr.replace("\n", " ")

"""Extensions are found by their metadata and their files' syntax; nothing is imported, and none breaks the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steplab.core import catalogue, extensions
from steplab.core.errors import InputError

Install = Callable[..., Path]
ADAPTER = (
    'DECLARATION = {"title": "Toy", "pins": [], "kinds": ["step"], "strategies": ["sync"], "layers": "all",'
    ' "factors": %s}\nclass Adapter: pass\n'
)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution on the path: files by module name, and entry points as group -> lines."""
    caches = [extensions.extensions, extensions.entry_points, extensions._all_points]
    caches += [catalogue.framework_extensions, catalogue.network_extensions, catalogue.framework, catalogue.general]
    caches += [catalogue.network_options, catalogue.network_module]

    def forget() -> None:
        for cached in caches:
            cached.cache_clear()

    def make(files: dict[str, str], points: dict[str, str], name: str = "acme") -> Path:
        site = tmp_path / f"site-{name}"
        metadata = site / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"[steplab.{group}]\n{line}\n" for group, line in points.items()]
        (metadata / "entry_points.txt").write_text("".join(lines))
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        monkeypatch.syspath_prepend(site)
        forget()
        return site

    yield make
    monkeypatch.undo()
    forget()


def test_a_file_is_found_without_importing_its_package(install: Install) -> None:
    files = {"acme_found/__init__.py": "raise SystemExit", "acme_found/deep.py": "app = None\n"}
    site = install(files, {"commands": "deep = acme_found.deep"})
    extension = extensions.extensions("command")["deep"]
    assert (extension.file, extension.distribution, extension.problem) == (site / "acme_found/deep.py", "acme 1.0", "")
    assert "acme_found" not in sys.modules


@pytest.mark.parametrize(
    ("text", "point", "words"),
    [
        ("app = 1\n", "Bad name = acme_mod", "a name has lower-case letters"),
        ("app = 1\n", "run = acme_mod", "steplab has a command of that name"),
        ("app = 1\n", "lost = acme_nowhere.deeper", "there is no module 'acme_nowhere.deeper'"),
        ("other = 1\n", "lacking = acme_mod", "does not define app"),
        ("app = = 1\n", "wrong = acme_mod", "is not valid Python"),
        ("app = '\\0'\n\0", "wrong = acme_mod", "is not valid Python"),
        ("app = 1\n", "named = acme_mod:other", "does not define other"),
    ],
)
def test_a_broken_extension_has_one_sentence_that_names_its_distribution(
    install: Install, text: str, point: str, words: str
) -> None:
    install({"acme_mod.py": text}, {"commands": point})
    (extension,) = extensions.extensions("command", ("run",)).values()
    assert words in extension.problem
    assert f"the command {extension.name!r} of acme 1.0 cannot be used: " in extension.problem
    assert "\n" not in extension.problem
    with pytest.raises(InputError, match=r"of acme 1\.0 cannot be used"):
        extension.usable_file()


def test_of_two_distributions_with_one_name_the_first_on_the_path_counts(install: Install) -> None:
    install({"acme_mod.py": "app = 1\n"}, {"commands": "hello = acme_mod"}, name="second")
    install({"acme_mod.py": "app = 1\n"}, {"commands": "hello = acme_mod"}, name="first")
    assert extensions.extensions("command")["hello"].distribution == "first 1.0"


def test_what_lies_in_the_current_folder_is_not_installed(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install({"acme_mod.py": "app = 1\n"}, {"commands": "hello = acme_mod"})
    monkeypatch.chdir(site)
    extensions._all_points.cache_clear()
    assert extensions.entry_points("steplab.commands") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ADAPTER % "{}", ""),
        ("DECLARATION = make()\nclass Adapter: pass\n", "must be a literal"),
        ("DECLARATION = []\nclass Adapter: pass\n", "must be a dict"),
        ("DECLARATION = {'title': 'Toy'}\nclass Adapter: pass\n", "lacks 'pins', 'kinds'"),
        (ADAPTER.replace('"pins": []', '"pins": "toy"') % "{}", "has a str as 'pins', which must be a list"),
        (ADAPTER.replace('"kinds"', '"sorts"') % "{}", "has an unknown key 'sorts'"),
        (ADAPTER.replace('["sync"]', '["snyc"]') % "{}", "has 'snyc' among 'strategies'"),
        (ADAPTER.replace('["step"]', '["walk"]') % "{}", "has 'walk' among 'kinds'"),
        (ADAPTER % "{'x': 1}", "has a factor 'x' without default and help"),
        (ADAPTER % "{'x': {'default': 1, 'help': 'x', 'heigh': 3}}", "has 'heigh' among 'factors[x]'"),
        (ADAPTER % "{'workers': {'default': 1, 'help': 'x'}}", "its factor 'workers' is one that every trial has"),
    ],
)
def test_a_framework_is_known_by_its_declaration_or_broken_by_it(install: Install, text: str, words: str) -> None:
    install({"acme_toy.py": text}, {"frameworks": "toy = acme_toy"})
    assert words in catalogue.framework_extensions()["toy"].problem
    assert ("toy" in catalogue.framework_names()) == (not words)
    assert "synthetic" in catalogue.framework_names()
    if words:
        with pytest.raises(InputError, match=r"the framework 'toy' of acme 1\.0"):
            catalogue.framework("toy")
    else:
        assert catalogue.framework("toy").title == "Toy"
        assert catalogue.adapter_file("toy").endswith("acme_toy.py")


NETWORK = "from steplab_worker.options import Option\nINPUT, CLASSES, PARAMETERS = (1,), 2, 3\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("OPTIONS = {}\ndef build(input_shape, classes): raise KeyError('lost')\n", "KeyError: 'lost'"),
        ("OPTIONS = {'units': 3}\ndef build(input_shape, classes): pass\n", "is not an Option"),
        ("OPTIONS = {'workers': Option(1, 'x')}\ndef build(input_shape, classes): pass\n", "every trial has"),
        ("OPTIONS = {}\ndef build(input_shape, classes): pass\nimport nothing_of_that_name\n", "nothing_of_that_name"),
    ],
)
def test_a_network_that_fails_is_one_sentence(install: Install, text: str, words: str) -> None:
    name = f"fails{abs(hash(text))}"
    install({"acme_net.py": NETWORK + text}, {"networks": f"{name} = acme_net"})
    assert name in catalogue.network_names()
    with pytest.raises(InputError, match=words):
        catalogue.build_network(name)


def test_a_network_with_the_name_of_one_of_ours_is_refused_and_ours_stays(install: Install) -> None:
    install({"acme_net.py": "raise SystemExit"}, {"networks": "mlp = acme_net"})
    assert "steplab has a network of that name" in catalogue.network_extensions()["mlp"].problem
    assert catalogue.build_network("mlp").parameters == 669706
    assert catalogue.network_file("mlp") == ""

"""Starts one rank: `python <this folder> --channel PATH --rank N`; or a helper: `python <this folder> --run MODULE`.

Run as a folder, Python would put this folder on the path, where `data` or `loop` could hide other people's modules,
and would not know the package's name. So the package is loaded here by hand, and nothing of the laboratory's own
site-packages reaches the framework's environment.
"""

import importlib
import importlib.util
import os
import sys


def _load_package():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.util.spec_from_file_location(
        "steplab_worker", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["steplab_worker"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    if "steplab_worker" not in sys.modules:
        _load_package()
    if sys.argv[1:2] == ["--run"]:
        importlib.import_module("steplab_worker." + sys.argv[2]).main()
    else:
        from steplab_worker.rank import main

        main(sys.argv[1:])

"""Python files of extensions, loaded as if they were among our own: `steplab_worker.adapters.NAME` and the like.

The package that an extension comes with is not installed in a framework's environment; its file is all there is. If it
is the `__init__.py` of a folder, the modules beside it can be imported from it as usual.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType


def load(name: str, path: str) -> ModuleType:
    """The module in a file under that name; loaded once."""
    if name in sys.modules:
        return sys.modules[name]
    folder = [os.path.dirname(path)] if os.path.basename(path) == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder)
    if spec is None or spec.loader is None:
        raise ImportError("%s is not a Python file" % path, name=name, path=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module

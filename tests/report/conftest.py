from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def example() -> ModuleType:
    """Give scripts/make_example.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("make_example", ROOT / "scripts/make_example.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

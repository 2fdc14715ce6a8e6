"""The public face of the package is what it says it is."""

import importlib
import pkgutil

import pytest

import batchline

WALKED = [module.name for module in pkgutil.walk_packages(batchline.__path__, "batchline.")]
MODULES = [name for name in WALKED if not name.endswith("__main__")]


@pytest.mark.parametrize("name", ["batchline", *MODULES])
def test_every_name_in_all_is_there(name: str) -> None:
    module = importlib.import_module(name)
    missing = [public for public in getattr(module, "__all__", []) if not hasattr(module, public)]
    assert missing == []


def test_what_the_package_offers_is_named_once_and_documented() -> None:
    assert len(batchline.__all__) == len(set(batchline.__all__))
    for name in batchline.__all__:
        assert getattr(batchline, name).__doc__

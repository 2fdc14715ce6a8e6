"""Empty databases for the tests of stores."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def sql_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of this test only, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'batchline.db'}"
    return str(request.getfixturevalue(f"{request.param}_database"))


@pytest.fixture(params=["postgresql", "mariadb"])
def server_database(request: pytest.FixtureRequest) -> str:
    """An empty database of this test only, in a server of each kind in turn."""
    return str(request.getfixturevalue(f"{request.param}_database"))

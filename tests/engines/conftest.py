from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from tiny_checkpoint import make_checkpoint

    return make_checkpoint(tmp_path_factory.mktemp("tiny"), head=True)

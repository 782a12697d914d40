from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from specbench.errors import DeploymentError
from specbench.observe.checkpoints import checkpoint, require_equal


def planted(folder: Path) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("[]")
    for number in (1, 2):
        (folder / f"model-{number}.safetensors").write_bytes(b"%d" % number)
    return str(folder)


def test_a_checkpoint_is_digested_by_config_tokenizer_and_every_file_of_weights(
    tmp_path: Path,
) -> None:
    found = checkpoint(planted(tmp_path / "m"))
    assert found["config"]["config.json"] == hashlib.sha256(b"{}").hexdigest()
    assert found["tokenizer"]["tokenizer.json"] == hashlib.sha256(b"[]").hexdigest()
    assert found["tokenizer"]["tokenizer.model"] is None
    assert found["weights"] == {
        f"model-{number}.safetensors": hashlib.sha256(b"%d" % number).hexdigest()
        for number in (1, 2)
    }


def test_a_hub_id_is_named_and_not_guessed_at() -> None:
    assert checkpoint("someone/model") == {"path": "someone/model", "local": False}


def test_equal_checkpoints_may_be_served_and_hub_ids_too(tmp_path: Path) -> None:
    target, draft = checkpoint(planted(tmp_path / "m")), checkpoint("someone/draft")
    recorded = {"target": target, "assets": {"someone/draft": draft}}
    require_equal([checkpoint(target["path"]), draft], recorded)


@pytest.mark.parametrize("name", ["model-2.safetensors", "tokenizer.json", "config.json"])
def test_a_file_of_equal_length_that_has_become_another_one_is_named(
    tmp_path: Path, name: str
) -> None:
    path = planted(tmp_path / "m")
    recorded = {"target": checkpoint(path), "assets": {}}
    (tmp_path / "m" / name).write_bytes(b"?" * (tmp_path / "m" / name).stat().st_size)
    with pytest.raises(DeploymentError) as refused:
        require_equal([checkpoint(path)], recorded)
    assert refused.value.message == f"other files than this run began with: {path}/{name}"
    assert refused.value.kind == "checkpoint_changed"


def test_a_file_more_or_less_is_named(tmp_path: Path) -> None:
    path = planted(tmp_path / "m")
    recorded = {"target": checkpoint("someone/model"), "assets": {path: checkpoint(path)}}
    (tmp_path / "m/model-1.safetensors").unlink()
    (tmp_path / "m/model-3.safetensors").write_bytes(b"3")
    with pytest.raises(DeploymentError, match=r"m/model-1\.safetensors, .*m/model-3\.safetensors"):
        require_equal([checkpoint(path)], recorded)

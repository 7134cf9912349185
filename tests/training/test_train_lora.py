"""Training by LoRA: what is trained, what is merged, and the adapter that is kept."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModel

from multiview.config import Train
from multiview.errors import InputError
from multiview.model import lora
from tests.fixtures import training_material
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.trainings import Fit, data, fit, start

__all__ = ["data", "fit", "start"]
WORDS = "embeddings.word_embeddings.weight"


@pytest.mark.parametrize("options", [{"tied": True}, {"chunk": 3, "gradient_checkpointing": True}])
def test_only_the_adapter_is_trained_which_is_merged_and_kept(
    fit: Fit, base: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    """W + (alpha / r) B A by the plain formula, viewers' embeddings as the adapter has them, and all else as it was."""
    tied = training_material.saved_model(tmp_path / "start", base, tied=options.pop("tied", False))
    trained = fit("out", model=tied, lora_rank=2, max_steps=3, **options)
    viewers = trained.tokenizer.convert_tokens_to_ids(trained.layout.viewers(trained.settings))
    for part, encoder in trained.encoders.items():
        folder, original = tmp_path / "out" / "adapter" / part, AutoModel.from_pretrained(tied.path / part)
        adapter = {
            name.removeprefix("base_model.model."): weight.double()
            for name, weight in load_file(folder / "adapter_model.safetensors").items()
        }
        layers = {name for name, module in encoder.named_modules() if isinstance(module, torch.nn.Linear)}
        for name, merged in encoder.state_dict().items():
            expected = original.state_dict()[name].double()
            if (layer := name.removesuffix(".weight")) in layers:
                down, up = adapter.pop(f"{layer}.lora_A.weight"), adapter.pop(f"{layer}.lora_B.weight")
                assert down.shape[0] == up.shape[1] == 2 and up.any()
                expected = expected + 4 / 2 * up @ down
            elif name == WORDS:
                embeddings = adapter.pop("embeddings.word_embeddings.token_adapter.trainable_tokens_delta")
                assert embeddings.shape == (len(viewers), trained.dim)
                assert not torch.equal(embeddings, expected[viewers])
                expected[viewers] = embeddings
            torch.testing.assert_close(merged.double(), expected, rtol=0, atol=1e-6)
        assert not adapter
        ids = torch.arange(20)[None]
        by_peft = PeftModel.from_pretrained(original, folder).eval()(ids).last_hidden_state
        torch.testing.assert_close(by_peft, encoder(ids).last_hidden_state, rtol=0, atol=1e-5)


def test_a_killed_run_ends_with_the_very_files_of_an_uninterrupted_one(
    fit: Fit, base: Path, tmp_path: Path
) -> None:
    """Of the best model that a validation saw, adapter included."""
    tied = training_material.saved_model(tmp_path / "start", base, tied=True)
    options: dict[str, Any] = {"lora_rank": 2, "max_steps": 6, "validate_steps": 3}
    fit("whole", model=tied, **options)
    kept = KeptCheckpoints(tmp_path / "kept", stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        fit("killed", None, kept, model=tied, **options)
    kept.stop_after = None
    fit("resumed", None, kept, model=tied, **options)
    whole, resumed = (
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for folder in (tmp_path / "whole", tmp_path / "resumed")
    )
    assert whole == resumed and Path("adapter/passage/adapter_config.json") in whole


def test_without_peft_it_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "find_spec", lambda name: None)
    lora.check_peft(Train())
    line = r"train.lora_rank: 8 needs peft: pip install 'multiview-retrieval\[lora\]', or set it to 0"
    with pytest.raises(InputError, match=line):
        lora.check_peft(Train(lora_rank=8))

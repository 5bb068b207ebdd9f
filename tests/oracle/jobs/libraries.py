"""Jobs of libraries that people train with: which there are, and what they have in common.

`run_oracle.py --libraries` runs them with an interpreter that has the libraries (libraries/install.sh makes one). No job
loads weights or data; all of them are made up.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Iterable

import torch

from workload import Context, Workload


class Library(Workload):
    """prepare() makes the model; step() runs it and may add() what it computes."""

    packages: tuple[str, ...] = ()  # without these it cannot run

    # As Workload.missing(), but it depends on the class.
    @classmethod
    def missing(cls) -> str:  # type: ignore[override]
        absent = [name for name in cls.packages if importlib.util.find_spec(name) is None]
        return f"{', '.join(absent)} not installed" if absent else ""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.model: Any = None
        self.total = torch.zeros((), dtype=torch.float64)
        self.prepare()

    def prepare(self) -> None:
        raise NotImplementedError

    def add(self, *values: torch.Tensor) -> None:
        """What steps compute is part of the checksum."""
        with torch.no_grad():
            for value in values:
                self.total += value.detach().double().nan_to_num().sum()

    def tensors(self) -> Iterable[torch.Tensor]:
        yield self.total
        if self.model is not None:
            yield from (value.float() for value in self.model.state_dict().values() if isinstance(value, torch.Tensor))


LIBRARIES = {
    "tv_resnet": ("libraries_vision", "ResNet"),
    "tv_vit": ("libraries_vision", "VisionTransformer"),
    "tv_detection": ("libraries_vision", "Detection"),
    "tv_segmentation": ("libraries_vision", "Segmentation"),
    "tv_operators": ("libraries_vision", "Operators"),
    "timm": ("libraries_vision", "Timm"),
    "timm_swin": ("libraries_vision", "TimmTransformer"),
    "bert_trainer": ("libraries_text", "BertTrainer"),
    "gpt2_generate": ("libraries_text", "Generate"),
    "llama": ("libraries_text", "Llama"),
    "t5": ("libraries_text", "T5"),
    "whisper": ("libraries_text", "Whisper"),
    "mixtral": ("libraries_text", "Mixtral"),
    "mamba": ("libraries_text", "Mamba"),
    "lightning": ("libraries_training", "Lightning"),
    "accelerate": ("libraries_training", "Accelerate"),
    "peft": ("libraries_training", "Peft"),
    "diffusers": ("libraries_training", "Diffusion"),
    "geometric": ("libraries_training", "Graphs"),
    "tensordict": ("libraries_training", "TensorDicts"),
    "transforms": ("torch_parts", "Transforms"),
    "differentiation": ("torch_parts", "Differentiation"),
    "optimizers": ("torch_parts", "Optimizers"),
    "kinds": ("torch_parts", "Kinds"),
    "modes": ("torch_parts", "Modes"),
    "deployed": ("torch_parts", "Deployed"),
    "compiled_dynamic": ("torch_compiled", "Dynamic"),
    "compiled_broken": ("torch_compiled", "Broken"),
    "fsdp": ("libraries_parallel", "FsdpJob"),
    "fsdp2": ("libraries_parallel", "Fsdp2Job"),
    "tensor_parallel": ("libraries_parallel", "TensorParallelJob"),
    "pipeline": ("libraries_parallel", "PipelineJob"),
}

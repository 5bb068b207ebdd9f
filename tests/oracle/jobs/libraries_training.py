"""Jobs of what trains models for their users: Lightning, Accelerate, PEFT, Diffusers."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from libraries import Library
from workload import Context


def made_up(count: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(torch.rand(count, 12, generator=generator), torch.randint(0, 4, (count,), generator=generator))


class Lightning(Library):
    """Trainer.fit with a validation, metrics, a learning rate schedule and workers that load."""

    packages = ("lightning", "torchmetrics")
    workers = 2

    def prepare(self) -> None:
        self.model = self.module()

    def module(self) -> Any:
        import lightning
        import torchmetrics
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        warnings.simplefilter("ignore")

        class Module(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.net = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
                self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=4)
                self.f1 = torchmetrics.F1Score(task="multiclass", num_classes=4, average="macro")

            def training_step(self, batch: Any, number: int) -> torch.Tensor:
                inputs, labels = batch
                loss = functional.cross_entropy(self.net(inputs), labels)
                self.log("loss", loss, prog_bar=True)
                return loss

            def validation_step(self, batch: Any, number: int) -> None:
                inputs, labels = batch
                scores = self.net(inputs)
                self.accuracy(scores, labels)
                self.f1(scores, labels)
                self.log("accuracy", self.accuracy, on_epoch=True)
                self.log("f1", self.f1, on_epoch=True)

            def configure_optimizers(self) -> Any:
                optimizer = torch.optim.AdamW(self.parameters(), 1e-3)
                return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, 1000)}

        return Module()

    def fit(self, epochs: int, workers: int) -> None:
        import lightning
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, gradient_clip_val=1.0, num_sanity_val_steps=0, accumulate_grad_batches=2)
        loaders = [DataLoader(made_up(count), batch_size=8, num_workers=workers, persistent_workers=workers > 0)
                   for count in (48, 16)]
        trainer.fit(self.model, *loaders)

    def warm_up(self) -> None:
        self.fit(1, 0)

    def run(self, steps: int) -> None:
        self.fit(steps // 2, self.workers)


class Accelerate(Library):
    """A loop of one's own with Accelerator: bfloat16, accumulated gradients, clipping."""

    packages = ("accelerate",)

    def prepare(self) -> None:
        from accelerate import Accelerator
        self.accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
        model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 4))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
        self.model, self.optimizer, self.loader, self.schedule = self.accelerator.prepare(
            model, optimizer, DataLoader(made_up(32), batch_size=8), schedule)

    def step(self) -> None:
        for inputs, labels in self.loader:
            with self.accelerator.accumulate(self.model):
                loss = functional.cross_entropy(self.model(inputs), labels)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()


class Peft(Library):
    """LoRA on a small OPT, merged at the end of each step as in an export."""

    packages = ("peft", "transformers")

    def prepare(self) -> None:
        import libraries_text  # sets its environment
        from peft import LoraConfig, get_peft_model
        from transformers import OPTConfig, OPTForCausalLM
        base = OPTForCausalLM(OPTConfig(vocab_size=90, hidden_size=32, num_hidden_layers=2, ffn_dim=48, num_attention_heads=2,
                                        max_position_embeddings=32, word_embed_proj_dim=32))
        self.model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"]))
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], 1e-3)
        self.tokens = torch.randint(3, 90, (2, 10))
        assert libraries_text

    def step(self) -> None:
        self.model.train()
        self.model(input_ids=self.tokens, labels=self.tokens).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.model.merge_adapter()
        self.model.eval()
        with torch.no_grad():
            self.add(self.model(input_ids=self.tokens).logits)
        self.model.unmerge_adapter()


class Diffusion(Library):
    """A small UNet with attention: noise is added, predicted, and taken away again by DDIM."""

    packages = ("diffusers",)

    def prepare(self) -> None:
        import libraries_text
        from diffusers import DDIMScheduler, UNet2DConditionModel
        from diffusers.training_utils import EMAModel
        self.model = UNet2DConditionModel(
            sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=12, attention_head_dim=4)
        self.scheduler = DDIMScheduler(num_train_timesteps=50)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.average = EMAModel(self.model.parameters())
        self.images, self.words = torch.rand(2, 3, 8, 8), torch.rand(2, 4, 12)
        assert libraries_text

    def step(self) -> None:
        noise = torch.randn_like(self.images)
        times = torch.randint(0, 50, (2,))
        noisy = self.scheduler.add_noise(self.images, noise, times)
        functional.mse_loss(self.model(noisy, times, self.words).sample, noise).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.step(self.model.parameters())
        self.scheduler.set_timesteps(2)
        sample = torch.randn(2, 3, 8, 8)
        with torch.no_grad():
            for time in self.scheduler.timesteps:
                sample = self.scheduler.step(self.model(sample, time, self.words).sample, time, sample).prev_sample
        self.add(sample)


class Graphs(Library):
    """PyTorch Geometric: convolutions by message passing, its loader and pooling."""

    packages = ("torch_geometric",)

    def prepare(self) -> None:
        from torch_geometric.data import Data
        from torch_geometric.loader import DataLoader as GraphLoader
        from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool
        self.pool = global_mean_pool
        self.model = nn.ModuleList([GCNConv(6, 16), GATConv(16, 8, heads=2), SAGEConv(16, 16), nn.Linear(16, 3)])
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)
        graphs = [Data(x=torch.rand(5 + i, 6), edge_index=torch.randint(0, 5 + i, (2, 12)), y=torch.tensor([i % 3]))
                  for i in range(8)]
        self.loader = GraphLoader(graphs, batch_size=4)

    def step(self) -> None:
        for batch in self.loader:
            self.optimizer.zero_grad()
            x = self.model[0](batch.x, batch.edge_index).relu()
            x = functional.dropout(self.model[1](x, batch.edge_index), 0.2)
            x = self.model[2](x, batch.edge_index).relu()
            functional.cross_entropy(self.model[3](self.pool(x, batch.batch)), batch.y).backward()
            self.optimizer.step()


class TensorDicts(Library):
    """tensordict and TorchRL: a policy of modules with keys, generalized advantages, PPO's loss; einops for shapes."""

    packages = ("tensordict", "torchrl", "einops")

    def prepare(self) -> None:
        from tensordict import TensorDict
        from tensordict.nn import NormalParamExtractor, TensorDictModule
        from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
        from torchrl.objectives import ClipPPOLoss
        from torchrl.objectives.value import GAE
        net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4), NormalParamExtractor())
        self.policy = ProbabilisticActor(
            TensorDictModule(net, ["observation"], ["loc", "scale"]), in_keys=["loc", "scale"], distribution_class=TanhNormal,
            return_log_prob=True)
        self.value = ValueOperator(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)), ["observation"])
        self.advantage = GAE(gamma=0.99, lmbda=0.95, value_network=self.value)
        self.loss = ClipPPOLoss(self.policy, self.value)
        self.model = self.loss
        self.optimizer = torch.optim.Adam(self.loss.parameters(), 1e-3)
        self.dict = TensorDict

    def step(self) -> None:
        from einops import rearrange, reduce
        rows = self.dict({"observation": torch.rand(2, 6, 4), "next": {
            "observation": torch.rand(2, 6, 4), "reward": torch.rand(2, 6, 1), "done": torch.zeros(2, 6, 1, dtype=torch.bool),
            "terminated": torch.zeros(2, 6, 1, dtype=torch.bool)}}, batch_size=[2, 6])
        with torch.no_grad():
            rows = self.policy(rows)
            rows = self.advantage(rows)
        losses = self.loss(rows.reshape(-1))
        sum(value for name, value in losses.items() if name.startswith("loss_")).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.add(reduce(rearrange(rows["observation"], "b t (h w) -> b h t w", h=2), "b h t w -> b h", "max"))

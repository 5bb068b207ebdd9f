"""Jobs of transformers: Trainer, generation with caches, gradient checkpointing, mixtures of experts."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils.data import Dataset

from libraries import Library

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class Sentences(Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(3, 90, (6 + index % 5,), generator=generator)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.tensor(index % 2)}


def padded(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    batch = {name: torch.nn.utils.rnn.pad_sequence([row[name] for row in rows], batch_first=True)
             for name in ("input_ids", "attention_mask")}
    return {**batch, "labels": torch.stack([row["labels"] for row in rows])}


class BertTrainer(Library):
    """Fine-tuning by Trainer: its loop, its evaluation, gradient accumulation, logging."""

    packages = ("transformers", "accelerate")

    def prepare(self) -> None:
        from transformers import BertConfig, BertForSequenceClassification
        self.model = BertForSequenceClassification(BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
            max_position_embeddings=32))

    def trainer(self, steps: int) -> Any:
        from transformers import Trainer, TrainingArguments
        return Trainer(
            model=self.model, train_dataset=Sentences(), eval_dataset=Sentences(), data_collator=padded,
            args=TrainingArguments(
                output_dir=self.context.out, max_steps=steps, per_device_train_batch_size=4, per_device_eval_batch_size=16,
                gradient_accumulation_steps=2, logging_steps=2, eval_strategy="steps", eval_steps=4, save_strategy="no",
                report_to=[], use_cpu=True, disable_tqdm=True, seed=self.context.seed))

    def warm_up(self) -> None:
        self.trainer(2).train()

    def run(self, steps: int) -> None:
        self.trainer(steps).train()


class Generate(Library):
    """GPT-2: greedily, by beams and by sampling, with a cache of keys and values."""

    packages = ("transformers",)

    def prepare(self) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel
        self.model = GPT2LMHeadModel(GPT2Config(vocab_size=90, n_positions=64, n_embd=32, n_layer=2, n_head=2,
                                                bos_token_id=1, eos_token_id=2, pad_token_id=0)).eval()
        self.prompt = torch.randint(3, 90, (2, 6))

    def step(self) -> None:
        mask = torch.ones_like(self.prompt)
        for more in ({"do_sample": False}, {"num_beams": 3}, {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.8},
                     {"do_sample": True, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2}):
            self.add(self.model.generate(self.prompt, attention_mask=mask, max_new_tokens=6, **more))


class Llama(Library):
    """A small Llama: training with gradient checkpointing, then generation with a static cache."""

    packages = ("transformers",)

    def prepare(self) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM
        self.model = LlamaForCausalLM(LlamaConfig(
            vocab_size=90, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0))
        self.model.gradient_checkpointing_enable()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3, fused=True)
        self.tokens = torch.randint(3, 90, (2, 12))

    def step(self) -> None:
        self.model.train()
        loss = self.model(input_ids=self.tokens, labels=self.tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.model.eval()
        self.add(self.model.generate(self.tokens[:, :4], max_new_tokens=4, do_sample=False))


class T5(Library):
    packages = ("transformers",)

    def prepare(self) -> None:
        from transformers import T5Config, T5ForConditionalGeneration
        self.model = T5ForConditionalGeneration(T5Config(
            vocab_size=90, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0))
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), 1e-3)
        self.inputs, self.labels = torch.randint(3, 90, (2, 10)), torch.randint(3, 90, (2, 7))

    def step(self) -> None:
        self.model.train()
        self.model(input_ids=self.inputs, labels=self.labels).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.model.eval()
        self.add(self.model.generate(self.inputs, max_new_tokens=5))


class Whisper(Library):
    packages = ("transformers",)

    def prepare(self) -> None:
        from transformers import WhisperConfig, WhisperForConditionalGeneration
        self.model = WhisperForConditionalGeneration(WhisperConfig(
            vocab_size=90, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=20,
            max_target_positions=20, num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            decoder_start_token_id=1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.sounds, self.labels = torch.rand(2, 8, 40), torch.randint(3, 90, (2, 6))

    def step(self) -> None:
        self.model(input_features=self.sounds, labels=self.labels).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Mixtral(Library):
    """Experts chosen by token: index_add_, one_hot, where; and the loss that balances them."""

    packages = ("transformers",)

    def prepare(self) -> None:
        from transformers import MixtralConfig, MixtralForCausalLM
        self.model = MixtralForCausalLM(MixtralConfig(
            vocab_size=90, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True,
            sliding_window=8, max_position_embeddings=32))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.tokens = torch.randint(3, 90, (2, 10))

    def step(self) -> None:
        self.model(input_ids=self.tokens, labels=self.tokens).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Mamba(Library):
    """A state-space model: its scan is a loop of small operators."""

    packages = ("transformers",)

    def prepare(self) -> None:
        from transformers import MambaConfig, MambaForCausalLM
        self.model = MambaForCausalLM(MambaConfig(vocab_size=90, hidden_size=16, state_size=4, num_hidden_layers=2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3, foreach=True)
        self.tokens = torch.randint(3, 90, (2, 10))

    def step(self) -> None:
        self.model(input_ids=self.tokens, labels=self.tokens).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

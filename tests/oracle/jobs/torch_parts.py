"""Parts of PyTorch that a training loop of one's own may use: transforms of functions, quantization, sparse and nested
tensors, modes, hooks, forward-mode differentiation, optimizers with closures, frozen TorchScript."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from libraries import Library


class Transforms(Library):
    """torch.func: vmap, jvp, grad, hessians, functional_call over an ensemble."""

    def prepare(self) -> None:
        self.models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
        self.inputs, self.labels = torch.rand(5, 4), torch.randint(0, 2, (5,))

    def step(self) -> None:
        from torch import func
        params, buffers = func.stack_module_state(self.models)

        def loss(parameters: Any, rest: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(func.functional_call(self.models[0], (parameters, rest), (x[None],)), y[None])

        each = func.vmap(func.vmap(func.grad(loss), in_dims=(None, None, 0, 0)), in_dims=(0, 0, None, None))
        grads = each(params, buffers, self.inputs, self.labels)
        self.add(*grads.values())
        weight = torch.rand(4, 4)
        out, tangent = func.jvp(lambda w: (self.inputs @ w).sin().sum(1), (weight,), (torch.ones(4, 4),))
        self.add(out, tangent, func.hessian(lambda x: (x ** 3).sum())(torch.rand(3)),
                 func.jacrev(lambda w: (self.inputs @ w).sum(0))(weight), func.jacfwd(lambda x: x.exp())(torch.rand(3)))
        noise = func.vmap(lambda x: x + torch.rand(2), randomness="different")(torch.zeros(3, 2))
        value, pull = func.vjp(lambda x: x.cumsum(0), torch.rand(4))
        self.add(noise, value, *pull(torch.ones(4)), func.linearize(lambda x: x.tanh(), torch.rand(3))[1](torch.ones(3)))


class Twice(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2 + ctx.saved_tensors[0] * 0

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent * 2


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        ctx.mark_non_differentiable()
        return x.mul(scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * ctx.scale, None


class Differentiation(Library):
    """Custom Functions under vmap, forward mode, saved-tensor hooks, nested checkpoints, hooks of all kinds, graphs of graphs."""

    def prepare(self) -> None:
        self.model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
        self.handles = [
            self.model.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 0,)),
            self.model[0].register_forward_hook(lambda module, inputs, output: output * 1),
            self.model[2].register_full_backward_pre_hook(lambda module, grads: (grads[0] * 1,)),
            self.model[0].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 1,) if inputs[0] is not None else None),
            self.model[0].weight.register_hook(lambda grad: grad.clone()),
            self.model[0].weight.register_post_accumulate_grad_hook(self.after),
            self.model.register_state_dict_post_hook(lambda *_: None)]
        self.inputs = torch.rand(3, 6)

    @staticmethod
    def after(weight: torch.Tensor) -> None:
        assert weight.grad is not None
        weight.grad.mul_(1)

    def step(self) -> None:
        from torch.autograd import forward_ad
        from torch.utils.checkpoint import checkpoint, checkpoint_sequential
        x = torch.rand(4, requires_grad=True)
        self.add(torch.func.vmap(Twice.apply)(x), torch.func.jvp(Twice.apply, (x.detach(),), (torch.ones(4),))[1])
        Once.apply(Twice.apply(x), 3.0).sum().backward()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.rand(3), torch.ones(3))
            self.add(forward_ad.unpack_dual(functional.gelu(dual) @ torch.eye(3)).tangent)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
            (self.model(self.inputs) ** 2).sum().backward()
        with torch.autograd.graph.save_on_cpu():
            self.model(self.inputs).tanh().sum().backward()

        def outer(value: torch.Tensor) -> torch.Tensor:
            return checkpoint(lambda v: self.model(v).sin(), value, use_reentrant=False) * 2

        checkpoint(outer, self.inputs.clone().requires_grad_(), use_reentrant=False).sum().backward()
        checkpoint(self.model, self.inputs.clone().requires_grad_(), use_reentrant=True).sum().backward()
        checkpoint_sequential(self.model, 2, self.inputs.clone().requires_grad_(), use_reentrant=False).sum().backward()
        first, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
        second, = torch.autograd.grad(first.sum(), x, create_graph=True, materialize_grads=True)
        second.sum().backward()
        y = (x * 2).requires_grad_()
        handle = torch.autograd.graph.register_multi_grad_hook([x, y], lambda grads: None)
        node = y.grad_fn
        assert node is not None
        hooks = [node.register_prehook(lambda grads: (grads[0] * 1,)), node.register_hook(lambda inputs, outputs: None)]
        y.sum().backward()
        for each in (handle, *hooks):
            each.remove()
        with contextlib.suppress(RuntimeError), torch.autograd.set_detect_anomaly(True, check_nan=True):
            (x * 0).div(x.detach() * 0).sum().backward()
        self.add(x.grad.nan_to_num())
        self.model.state_dict()
        self.model.zero_grad()


class Optimizers(Library):
    """Every optimizer of torch.optim in its forms: plain, foreach, fused; closures; averages; parametrizations."""

    def prepare(self) -> None:
        self.model = nn.Linear(5, 5)
        torch.nn.utils.parametrizations.spectral_norm(self.model)
        optim, weights = torch.optim, list(self.model.parameters())
        self.kinds = [optim.SGD(weights, 1e-3, momentum=0.9, foreach=True), optim.SGD(weights, 1e-3, fused=True),
                      optim.Adam(weights, 1e-3, amsgrad=True, foreach=True), optim.AdamW(weights, 1e-3, fused=True),
                      optim.Adagrad(weights, 1e-3, fused=True), optim.RMSprop(weights, 1e-3, foreach=True), optim.Rprop(weights, 1e-3),
                      optim.NAdam(weights, 1e-3), optim.RAdam(weights, 1e-3), optim.Adamax(weights, 1e-3), optim.ASGD(weights, 1e-3),
                      optim.Adadelta(weights, 1e-3), optim.Adafactor(weights, 1e-3)]
        self.closures = optim.LBFGS(weights, max_iter=4, line_search_fn="strong_wolfe")
        self.average = optim.swa_utils.AveragedModel(nn.Linear(5, 5))
        self.inputs = torch.rand(4, 5)

    def step(self) -> None:
        def closure() -> torch.Tensor:
            self.closures.zero_grad()
            loss = (self.model(self.inputs) - 1).square().mean()
            loss.backward()
            return loss

        for optimizer in self.kinds:
            closure()
            optimizer.step()
        self.closures.step(closure)
        self.average.update_parameters(nn.Linear(5, 5))


class Kinds(Library):
    """Tensors of other kinds: nested and jagged, sparse ones, complex numbers, packed sequences, subclasses, meta."""

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        self.model = nn.ModuleList([nn.Linear(4, 4), nn.LSTM(4, 3, batch_first=True, bidirectional=True),
                                    nn.EmbeddingBag(10, 4, mode="mean", sparse=True),
                                    nn.MultiheadAttention(4, 2, batch_first=True)])

    def step(self) -> None:
        rows = [torch.rand(2, 4), torch.rand(3, 4)]
        jagged = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
        out = self.model[0](jagged).relu()
        out.values().sum().backward()
        strided = torch.nested.nested_tensor(rows)
        self.add(torch.nested.to_padded_tensor(self.model[0](strided).softmax(-1), 0.0))
        dense = torch.rand(4, 4).relu() * (torch.rand(4, 4) > 0.5)
        for sparse in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2))):
            self.add((sparse @ torch.rand(4, 2)) if sparse.layout != torch.sparse_csc else sparse.to_dense())
        coo = dense.to_sparse().requires_grad_()
        torch.sparse.mm(coo, torch.rand(4, 4)).sum().backward()
        torch.sparse.softmax(coo, 1).to_dense().sum().backward()
        self.add(torch.fft.ifft2(torch.fft.fft2(dense) * torch.polar(dense, dense)).abs(), torch.stft(
            torch.rand(64), 16, return_complex=True, window=torch.hann_window(16)).angle())
        wave = torch.rand(8, dtype=torch.complex64, requires_grad=True)
        (torch.fft.rfft(wave.real) * wave[:5].conj()).abs().sum().backward()
        packed = nn.utils.rnn.pack_sequence([torch.rand(5, 4), torch.rand(2, 4)])
        hidden, _ = self.model[1](packed)
        nn.utils.rnn.pad_packed_sequence(hidden, batch_first=True)[0].sum().backward()
        self.model[2](torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2])).sum().backward()
        self.model[3](*[torch.rand(2, 3, 4)] * 3, key_padding_mask=torch.tensor([[False, False, True]] * 2))[0].sum().backward()
        with torch.device("meta"):
            nn.Linear(3, 3)(torch.rand(2, 3))
        masked = torch.masked.masked_tensor(dense, dense > 0)
        self.add(masked.sum().get_data(), torch.linalg.svdvals(dense + torch.eye(4)), torch.linalg.solve(dense + 5 * torch.eye(4), dense))
        self.model.zero_grad()


class Logged(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    """A wrapper subclass: its operators run in Python."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapped":
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch.utils._pytree import tree_map_only
        result = function(*tree_map_only(Wrapped, lambda t: t.inner, args), **tree_map_only(Wrapped, lambda t: t.inner, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapped, result)


class Modes(Library):
    """Dispatch and function modes, tensor subclasses, FLOP counters, deterministic and default-device modes."""

    def prepare(self) -> None:
        self.model = nn.Linear(4, 4)

    def step(self) -> None:
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils.flop_counter import FlopCounterMode

        class Counting(TorchDispatchMode):
            count = 0

            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                self.count += 1
                return function(*args, **(kwargs or {}))

        inputs = torch.rand(3, 4)
        with Counting() as counting, Counting():
            with torch.autograd.profiler.record_function("in a mode"):
                self.model(inputs).relu().sum().backward()
        with Logged(), Logged():
            self.model(inputs).sigmoid().sum().backward()
        with FlopCounterMode(display=False) as flops:
            functional.scaled_dot_product_attention(*[torch.rand(1, 2, 3, 4, requires_grad=True)] * 3).sum().backward()
        wrapped = Wrapped(torch.rand(3, 4, requires_grad=True))
        wrapped.mul(2).add(1).sum().backward()
        with torch.device("cpu"), torch.no_grad(), torch.inference_mode():
            made = torch.full((2,), float(counting.count + flops.get_total_flops() % 7))
            self.add(made, torch.stack([made, made]).clone())
        torch.use_deterministic_algorithms(True)
        self.add(torch.zeros(4).index_add(0, torch.tensor([1, 1]), torch.ones(2)))
        torch.use_deterministic_algorithms(False)
        self.model.zero_grad()


class Deployed(Library):
    """What is made for inference: dynamic and FX quantization, exported programs, frozen and optimized TorchScript."""

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        from torch.ao import quantization
        from torch.ao.quantization import quantize_fx
        plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
        self.images = torch.rand(2, 3, 8, 8)
        self.dynamic = quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 4)), {nn.Linear, nn.LSTM})
        mapping = quantization.get_default_qconfig_mapping("fbgemm")
        prepared = quantize_fx.prepare_fx(plain, mapping, (self.images,))
        prepared(self.images)
        self.quantized = quantize_fx.convert_fx(prepared)
        self.aware = quantize_fx.prepare_qat_fx(nn.Sequential(nn.Linear(8, 4)).train(),
                                                quantization.get_default_qat_qconfig_mapping("fbgemm"), (torch.rand(2, 8),))
        self.exported = torch.export.export(
            plain, (self.images,), dynamic_shapes={"input": {0: torch.export.Dim("batch", min=1, max=16)}}).module()
        scripted = torch.jit.trace(plain, self.images)
        self.frozen = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.script(plain)))
        file = io.BytesIO()
        torch.jit.save(scripted, file)
        file.seek(0)
        self.loaded = torch.jit.load(file)

    def step(self) -> None:
        with torch.no_grad():
            for each in (self.quantized, self.exported, self.frozen, self.loaded):
                self.add(each(self.images))
            self.add(self.exported(torch.rand(3, 3, 8, 8)), self.dynamic(torch.rand(2, 3, 8))[0])
        self.aware(torch.rand(2, 8)).sum().backward()
        file = io.BytesIO()
        torch.save(self.images, file)
        file.seek(0)
        self.add(torch.load(file, weights_only=True))

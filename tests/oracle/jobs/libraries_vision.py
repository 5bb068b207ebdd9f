"""Jobs of torchvision and timm, as their users write them, with weights and images made up."""

from __future__ import annotations

from typing import Any, Iterable

import torch
from torch import nn
from torch.nn import functional

from libraries import Library


class Classifier(Library):
    """A model of images: trained, with an evaluation every other step."""

    size = 32

    def make(self) -> nn.Module:
        raise NotImplementedError

    def prepare(self) -> None:
        self.model = self.make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4)
        self.images = torch.rand(2, 3, self.size, self.size)
        self.labels = torch.randint(0, 10, (2,))
        self.number = 0

    def step(self) -> None:
        self.model.train()
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(self.images), self.labels, label_smoothing=0.1).backward()
        self.optimizer.step()
        self.number += 1
        if self.number % 2 == 0:
            self.model.eval()
            with torch.inference_mode():
                self.add(self.model(self.images).softmax(1))


class ResNet(Classifier):
    packages = ("torchvision",)
    size = 64

    def make(self) -> nn.Module:
        from torchvision.models import resnet18
        return resnet18(num_classes=10)


class VisionTransformer(Classifier):
    packages = ("torchvision",)

    def make(self) -> nn.Module:
        from torchvision.models import VisionTransformer as Model
        return Model(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10)


class Timm(Classifier):
    """ConvNeXt, with timm's optimizer, mixup and averaged weights."""

    packages = ("timm",)
    size = 64

    def make(self) -> nn.Module:
        import timm
        return timm.create_model("convnext_atto", num_classes=10, drop_path_rate=0.1, depths=(1, 1, 1, 1), dims=(8, 12, 16, 24))

    def prepare(self) -> None:
        super().prepare()
        import numpy
        from timm.data import Mixup
        from timm.loss import SoftTargetCrossEntropy
        from timm.optim import create_optimizer_v2
        from timm.scheduler import CosineLRScheduler
        from timm.utils import ModelEmaV3
        numpy.random.seed(self.context.seed)  # of Mixup
        self.optimizer = create_optimizer_v2(self.model, opt="adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.9)
        self.schedule = CosineLRScheduler(self.optimizer, t_initial=10, warmup_t=2)
        self.mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)
        self.loss = SoftTargetCrossEntropy()
        self.average = ModelEmaV3(self.model, decay=0.9)

    def step(self) -> None:
        self.model.train()
        self.number += 1
        images, targets = self.mixup(self.images.clone(), self.labels)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss(self.model(images).float(), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step(self.number)
        self.average.update(self.model, step=self.number)


class TimmTransformer(Classifier):
    """Swin: windows, rolled features, position tables; channels_last."""

    packages = ("timm",)
    size = 64

    def make(self) -> nn.Module:
        import timm
        model = timm.create_model("swin_s3_tiny_224", img_size=64, window_size=4, embed_dim=24, depths=(1, 1, 1, 1),
                                  num_heads=(1, 2, 2, 2), num_classes=10)
        return model.to(memory_format=torch.channels_last)


class Detection(Library):
    """Faster R-CNN: anchors, RoI alignment and non-maximum suppression in torchvision's own C++ operators."""

    packages = ("torchvision",)

    def prepare(self) -> None:
        from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn
        self.model = fasterrcnn_mobilenet_v3_large_320_fpn(
            weights=None, weights_backbone=None, num_classes=5, min_size=64, max_size=96, rpn_pre_nms_top_n_train=100,
            rpn_post_nms_top_n_train=50, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20, box_score_thresh=0.0)
        self.optimizer = torch.optim.SGD([p for p in self.model.parameters() if p.requires_grad], 1e-4)
        self.images = [torch.rand(3, 64, 80), torch.rand(3, 70, 64)]
        self.targets = [{"boxes": torch.tensor([[4.0, 5, 40, 44], [10, 20, 60, 60]]), "labels": torch.tensor([1, 2])},
                        {"boxes": torch.tensor([[8.0, 8, 30, 50]]), "labels": torch.tensor([3])}]

    def step(self) -> None:
        self.model.train()
        losses = self.model(self.images, self.targets)
        self.optimizer.zero_grad()
        sum(losses.values()).backward()
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            for found in self.model(self.images):
                self.add(found["scores"])


class Segmentation(Library):
    """LR-ASPP, and torchvision's transforms (v2) of images and masks, subclasses of tensors."""

    packages = ("torchvision",)

    def prepare(self) -> None:
        from torchvision import tv_tensors
        from torchvision.models.segmentation import lraspp_mobilenet_v3_large
        from torchvision.transforms import v2
        self.model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), 1e-4)
        self.image = tv_tensors.Image((torch.rand(3, 72, 80) * 255).to(torch.uint8))
        self.mask = tv_tensors.Mask(torch.randint(0, 4, (72, 80)))
        self.boxes = tv_tensors.BoundingBoxes(torch.tensor([[2, 3, 40, 50]]), format="XYXY", canvas_size=(72, 80))
        self.transforms = v2.Compose([
            v2.RandomResizedCrop(64, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.2, 0.2, 0.2, 0.05),
            v2.RandomAffine(10), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)])

    def step(self) -> None:
        pairs = [self.transforms(self.image, self.mask, self.boxes) for _ in range(2)]
        images = torch.stack([image for image, _, _ in pairs])
        masks = torch.stack([mask for _, mask, _ in pairs])
        self.optimizer.zero_grad(set_to_none=False)
        functional.cross_entropy(self.model(images)["out"], masks.long()).backward()
        self.optimizer.step()


class Operators(Library):
    """torchvision's operators for themselves: kernels in C++ with autograd nodes of their own."""

    packages = ("torchvision",)

    def prepare(self) -> None:
        self.model = None
        self.features = torch.rand(1, 4, 12, 12, requires_grad=True)
        self.boxes = torch.tensor([[0.0, 0, 8, 8], [1, 1, 9, 9], [2, 2, 10, 6]])
        self.scores = torch.rand(3)

    def step(self) -> None:
        from torchvision import ops
        rois = [self.boxes]
        total = ops.roi_align(self.features, rois, 3).sum() + ops.roi_pool(self.features, rois, 3).sum()
        total = total + ops.ps_roi_align(self.features, rois, 2).sum() + ops.ps_roi_pool(self.features, rois, 2).sum()
        offsets = torch.rand(1, 18, 10, 10, requires_grad=True)
        weight = torch.rand(2, 4, 3, 3, requires_grad=True)
        total = total + ops.deform_conv2d(self.features, offsets, weight, mask=torch.rand(1, 9, 10, 10)).sum()
        total = total + ops.sigmoid_focal_loss(self.features, torch.ones_like(self.features)).mean()
        total = total + ops.stochastic_depth(self.features, 0.5, "row").sum() + ops.drop_block2d(self.features, 0.2, 3).sum()
        total.backward()
        self.add(self.boxes[ops.nms(self.boxes, self.scores, 0.5)], ops.box_iou(self.boxes, self.boxes),
                 ops.batched_nms(self.boxes, self.scores, torch.tensor([0, 0, 1]), 0.5))
        self.features.grad = None

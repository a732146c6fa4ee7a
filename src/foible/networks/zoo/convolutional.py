"""The papers' small convolutional networks."""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import nn

from foible.networks.zoo.layers import Dropout

Shape = tuple[int, int, int]


def conv(shape: Shape, classes: int) -> nn.Sequential:
    """Paper 3's "Conv": one convolution, max pool, fully connected, dropout, softmax (widths are our choice)."""
    channels, height, width = shape
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(channels, 32, 5),
            relu1=nn.ReLU(),
            pool=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            hidden=nn.Linear(32 * ((height - 4) // 2) * ((width - 4) // 2), 128),
            relu2=nn.ReLU(),
            dropout=Dropout(0.5, 128),
            output=nn.Linear(128, classes),
        )
    )


def lenet(shape: Shape, classes: int) -> nn.Sequential:
    """LeNet-5 (LeCun et al. 1998) with ReLU and max pooling; padded so that 28×28 works as 32×32 did."""
    channels, height, width = shape
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 6, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            hidden1=nn.Linear(16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2), 120),
            relu3=nn.ReLU(),
            hidden2=nn.Linear(120, 84),
            relu4=nn.ReLU(),
            output=nn.Linear(84, classes),
        )
    )


def lenet_caffe(shape: Shape, classes: int) -> nn.Sequential:
    """Paper 5's MNIST network, the LeNet that comes with Caffe: 20 and 50 maps of 5×5, each followed by a max pool and
    by no activation, then 500 units with ReLU. Weights begin by Caffe's "xavier" (uniform within √(3 / inputs)).
    """
    channels, height, width = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, 20, 5),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(20, 50, 5),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        hidden=nn.Linear(50 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2), 500),
        relu=nn.ReLU(),
        output=nn.Linear(500, classes),
    )
    for layer in layers.values():
        if isinstance(layer, nn.Conv2d | nn.Linear) and not layer.weight.is_meta:
            reach = math.sqrt(3 / layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -reach, reach)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return nn.Sequential(layers)


def cnn4(shape: Shape, classes: int) -> nn.Sequential:
    """Paper 4, Appendix A: four convolutions and three fully connected layers, ReLU, batch normalisation, max
    pooling, dropout 0.4 on the middle fully connected layer. Our choice: 32-32-64-64 maps of 3×3, a pool after
    every second convolution, 512 and 128 units.
    """
    channels, height, width = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    before = channels
    for number, maps in enumerate((32, 32, 64, 64), 1):
        layers[f"conv{number}"] = nn.Conv2d(before, maps, 3, padding=1, bias=False)
        layers[f"norm{number}"] = nn.BatchNorm2d(maps)
        layers[f"relu{number}"] = nn.ReLU()
        if number % 2 == 0:
            layers[f"pool{number}"] = nn.MaxPool2d(2)
        before = maps
    layers["flatten"] = nn.Flatten()
    layers["hidden1"] = nn.Linear(64 * (height // 4) * (width // 4), 512)
    layers["relu5"] = nn.ReLU()
    layers["hidden2"] = nn.Linear(512, 128)
    layers["relu6"] = nn.ReLU()
    layers["dropout"] = Dropout(0.4, 128)
    layers["output"] = nn.Linear(128, classes)
    return nn.Sequential(layers)

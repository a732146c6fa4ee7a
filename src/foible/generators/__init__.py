"""Generators: an encoder from images to codes and a decoder back, trained here (`vae:10`, `vaegan:1024`) or a user's
own. `open_generator` opens one, `train_generator` trains one."""

from foible.generators.base import Generator, Posterior, check_images
from foible.generators.files import Collapsed
from foible.generators.opening import open_generator
from foible.generators.train import train_generator

__all__ = ["Collapsed", "Generator", "Posterior", "check_images", "open_generator", "train_generator"]

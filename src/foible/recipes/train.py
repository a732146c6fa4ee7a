from foible.train import TrainConfig, train  # noqa

import torch.nn as nn


class Net(nn.Sequential):
    def __init__(self):
        super(Net, self).__init__(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10), nn.LogSoftmax(1))

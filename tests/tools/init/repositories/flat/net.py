import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.fc1 = nn.Linear(144, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        return F.log_softmax(self.fc1(x.flatten(1)), dim=1)

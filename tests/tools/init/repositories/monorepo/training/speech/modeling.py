from torch import nn


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, frames):
        return self.head(self.rnn(frames)[0][:, -1])

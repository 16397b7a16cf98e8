# %% In the notebook this trains interactively; here it runs from top to bottom.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shapes.model import Classifier

torch.manual_seed(0)
labels = torch.randint(0, 4, (1600,))
images = torch.rand(1600, 1, 8, 8)
for quarter in range(4):
    rows, columns = divmod(quarter, 2)
    images[labels == quarter, :, 4 * rows : 4 * rows + 4, 4 * columns : 4 * columns + 4] += 0.5
training = DataLoader(TensorDataset(images[:1280], labels[:1280]), batch_size=64)
testing = DataLoader(TensorDataset(images[1280:], labels[1280:]), batch_size=64)

model = Classifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)

# %%
for t in range(3):
    print(f"Epoch {t + 1}\n-------------------------------")
    for batch, (X, y) in enumerate(training):
        loss = loss_fn(model(X), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if batch % 5 == 0:
            print(f"loss: {loss.item():>7f}  [{(batch + 1) * len(X):>5d}/{len(training.dataset):>5d}]")
    with torch.no_grad():
        test_loss = sum(loss_fn(model(X), y).item() for X, y in testing) / len(testing)
        correct = sum((model(X).argmax(1) == y).sum().item() for X, y in testing) / len(testing.dataset)
    print(f"Test Error: \n Accuracy: {100 * correct:>0.1f}%, Avg loss: {test_loss:>8f} \n")
print("Done!")

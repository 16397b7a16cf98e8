import argparse
import torch
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset
from net import Net


def digits(count, seed):
    labels = torch.arange(count) % 10
    noise = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(noise + F.one_hot(6 * labels, 64).view(count, 1, 8, 8), labels)


def test(model, loader):
    model.eval()
    with torch.no_grad():
        ((data, target),) = loader
        output = model(data)
    loss, correct = F.nll_loss(output, target).item(), output.argmax(1).eq(target).sum().item()
    print("\nTest set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)\n".format(loss, correct, 400, correct / 4))


def main():
    parser = argparse.ArgumentParser(description="PyTorch example")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    args = parser.parse_args()
    torch.manual_seed(1)
    train_loader = DataLoader(digits(1280, 1), batch_size=64, shuffle=True)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch, (data, target) in enumerate(train_loader):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            if batch % 10 == 0:
                seen = (epoch, batch * 64, 1280, 5 * batch, loss.item())
                print("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(*seen))
        test(model, DataLoader(digits(400, 2), batch_size=400))


if __name__ == "__main__":
    main()

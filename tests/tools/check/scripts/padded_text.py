"""A GRU tags sequences of different lengths; the loss is the mean over the tokens of all processes."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, DistributedSampler

PAD = -1


class Tagger(nn.Module):
    def __init__(self, vocab=24, dim=24, tags=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, tags)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


def sentences(count, seed):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 20, (count,), generator=g).tolist()
    words = [torch.randint(1, 24, (length,), generator=g) for length in lengths]
    return [(w, w.cumsum(0) % 3) for w in words]


def collate(items):
    words, tags = zip(*items)
    return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=PAD)


def train(model, loader, optimizer, world):
    for words, tags in loader:
        logits = model(words)
        total = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=PAD, reduction="sum")
        tokens = (tags != PAD).sum()
        dist.all_reduce(tokens)
        loss = total * world / tokens  # DDP takes the mean over the ranks
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    torch.manual_seed(7)
    corpus, held_out = sentences(320, 1), sentences(75, 2)
    sampler = DistributedSampler(corpus, seed=7)
    loader = DataLoader(corpus, batch_size=16 // world, sampler=sampler, collate_fn=collate)
    model = DistributedDataParallel(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        train(model, loader, optimizer, world)
        counts = torch.zeros(2)
        with torch.no_grad():
            for words, tags in DataLoader(held_out[dist.get_rank() :: world], batch_size=25, collate_fn=collate):
                real = tags != PAD
                counts += torch.tensor([(model.module(words).argmax(-1) == tags)[real].sum(), real.sum()])
        dist.all_reduce(counts)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {int(counts[0])} of {int(counts[1])} held-out tokens right")


if __name__ == "__main__":
    main()

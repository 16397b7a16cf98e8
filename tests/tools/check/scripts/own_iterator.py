"""Reads fixed-size records from a file through an iterator of its own; gradients are averaged in a hook."""

import mmap
import os
import struct
import tempfile

import torch
import torch.distributed as dist

RECORD = struct.Struct("8fi")


def write_records(path, count):
    generator = torch.Generator().manual_seed(9)
    with open(path, "wb") as file:
        for _ in range(count):
            x = torch.randn(8, generator=generator)
            file.write(RECORD.pack(*x.tolist(), int(x[:4].sum() > x[4:].sum())))


class Reader:
    """`next` fills a buffer, like a reader written in C; `rewind` begins again."""

    def __init__(self, path, batch, rank, world):
        self._file = open(path, "rb")
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._records, self._batch, self._rank, self._world = len(self._map) // RECORD.size, batch, rank, world
        self._x, self._y = torch.empty(batch, 8), torch.empty(batch, dtype=torch.long)
        self.rewind(0)

    def rewind(self, epoch):
        self._order = torch.randperm(self._records, generator=torch.Generator().manual_seed(epoch)).tolist()
        self._cursor = self._rank

    def read(self):
        if self._cursor + (self._batch - 1) * self._world >= self._records:
            return None
        for row in range(self._batch):
            *x, y = RECORD.unpack_from(self._map, self._order[self._cursor] * RECORD.size)
            self._x[row], self._y[row] = torch.tensor(x), y
            self._cursor += self._world
        return self._x, self._y


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def average(grad):
        grad = grad / world
        dist.all_reduce(grad)
        return grad

    for parameter in model.parameters():
        parameter.register_hook(average)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records.bin")
        write_records(path, 480)
        reader = Reader(path, 24 // world, rank, world)
        for epoch in range(3):
            reader.rewind(epoch)
            while (batch := reader.read()) is not None:
                x, y = batch
                loss = torch.nn.functional.cross_entropy(model(x), y)
                model.zero_grad()
                loss.backward()
                optimizer.step()
            mean = loss.detach() / world
            dist.all_reduce(mean)
            if rank == 0:
                print(f"epoch {epoch}, last loss {mean:.4f}")


if __name__ == "__main__":
    main()

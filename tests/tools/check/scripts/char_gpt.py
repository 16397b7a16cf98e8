"""In the manner of nanoGPT: settings are globals, batches are drawn by hand, micro steps are shared by the ranks."""

import os

import numpy as np
import torch
import torch.nn as nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

batch_size, block_size, n_embd = 12, 16, 24
gradient_accumulation_steps = 4
max_iters, learning_rate, grad_clip = 30, 1e-2, 1.0
eval_interval = 10

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend="gloo")
    ddp_rank, ddp_world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    master_process, seed_offset = ddp_rank == 0, ddp_rank
    assert gradient_accumulation_steps % ddp_world_size == 0
    gradient_accumulation_steps //= ddp_world_size
else:
    master_process, seed_offset = True, 0

text = np.random.RandomState(0).randint(0, 3, size=6000).cumsum() % 11
train_data, val_data = text[:5000], text[5000:]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, n_embd), nn.Embedding(block_size, n_embd)
        self.block, self.lm_head = nn.Linear(n_embd, n_embd), nn.Linear(n_embd, 11)

    def forward(self, idx, targets):
        x = self.block(self.wte(idx) + self.wpe(torch.arange(idx.size(1))))
        logits = self.lm_head(F.gelu(x))
        return logits, F.cross_entropy(logits.view(-1, 11), targets.view(-1))


torch.manual_seed(1337)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
if ddp:
    model = DDP(model)
raw_model = model.module if ddp else model
torch.manual_seed(1337 + seed_offset)


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size]) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size]) for i in ix])
    return x, y


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = [raw_model(*get_batch("val"))[1].item() for _ in range(4)]
    model.train()
    return sum(losses) / len(losses)


X, Y = get_batch("train")
for iter_num in range(max_iters):
    if iter_num % eval_interval == 0 and master_process:
        print(f"step {iter_num}: val loss {estimate_loss():.4f}")
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        logits, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
if ddp:
    destroy_process_group()

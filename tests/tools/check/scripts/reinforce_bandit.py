"""Policy gradients: each rank plays games of its own, of different lengths, and every move counts the same."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributions import Categorical


class Walk:
    """A walk on a line: the aim is to reach +4 and not -4."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def reset(self):
        self.at, self.moves = int(torch.randint(-2, 3, (), generator=self.generator)), 0
        return self.state()

    def state(self):
        return torch.tensor([self.at / 4, 1.0])

    def step(self, action):
        slip = torch.rand((), generator=self.generator) < 0.2
        self.at += (1 if action else -1) * (-1 if slip else 1)
        self.moves += 1
        return self.state(), float(self.at == 4), abs(self.at) >= 4 or self.moves == 20


def play(policy, walk, games):
    states, actions, returns = [], [], []
    for _ in range(games):
        state, over, start = walk.reset(), False, len(states)
        while not over:
            with torch.no_grad():
                action = Categorical(logits=policy(state)).sample()
            states.append(state)
            actions.append(action)
            state, reward, over = walk.step(action.item())
        returns += [reward * 0.95 ** (len(states) - 1 - i) for i in range(start, len(states))]
    return torch.stack(states), torch.stack(actions), torch.tensor(returns)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    torch.manual_seed(1000 + rank)
    walk = Walk(1000 + rank)
    for update in range(20):
        states, actions, returns = play(policy, walk, 8 // world_size)
        log_probabilities = Categorical(logits=policy(states)).log_prob(actions)
        moves = torch.tensor(float(len(states)))
        dist.all_reduce(moves)
        loss = -(log_probabilities * returns).sum() / moves
        optimizer.zero_grad()
        loss.backward()
        for parameter in policy.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        optimizer.step()
        if update % 5 == 4:
            won = (returns > 0).float().sum()
            dist.all_reduce(won)
            if rank == 0:
                sys.stdout.write(f"update {update + 1}: {won.item() / moves.item():.3f} of the moves led to the aim\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

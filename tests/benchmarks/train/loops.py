"""The training loops that the rows time: an epoch to compile, then the others."""

import time


def timed_fit(model, source, epochs):
    """Seconds of `Model.fit` for all epochs but the first."""
    model.fit(source, 1, progress=False)
    began = time.perf_counter()
    model.fit(source, epochs - 1, progress=False)
    return time.perf_counter() - began


def timed_torch(net, x, y, batch, epochs, rate):
    """Seconds of PyTorch's usual loop, fused Adam and whole batches in random order, for all epochs but the first."""
    import torch

    optimizer, loss = torch.optim.Adam(net.parameters(), rate, fused=True), torch.nn.CrossEntropyLoss()

    def epoch():
        order = torch.randperm(len(x))
        for k in range(0, len(x) - batch + 1, batch):
            chosen = order[k : k + batch]
            optimizer.zero_grad()
            loss(net(x[chosen]), y[chosen]).backward()
            optimizer.step()

    epoch()
    began = time.perf_counter()
    for _ in range(epochs - 1):
        epoch()
    seconds = time.perf_counter() - began
    net.eval()
    return seconds

"""A net of one's own in a training loop of one's own, with a ranking loss; lists of any length, nothing padded.

python examples/torch_loop.py
"""

import numpy as np
import torch

import rankwise as rw

train, test = rw.split(rw.synthetic(n_queries=300, n_features=20, seed=1), (0.7, 0.3), seed=0)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
loss = rw.torch_loss("stochastic(approx_ndcg, samples=4)", seed=0)  # it draws anew at each step, and counts them itself


def inputs(data):
    return torch.tensor(np.log1p(np.abs(data.features)))


def scores(data):
    with torch.no_grad():
        return net(inputs(data)).squeeze(-1).numpy()


before = scores(test)
order = np.random.default_rng(0)
for epoch in range(20):
    values = []
    for queries in np.array_split(order.permutation(train.n_queries), 8):
        batch = train.take(queries)
        value = loss(net(inputs(batch)).squeeze(-1), batch.labels, batch.offsets)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:2}  loss {np.mean(values):.4f}")

torch.save({"net": net.state_dict(), "loss": loss.state_dict(), "optimizer": optimizer.state_dict()}, "loop.pt")
print(rw.compare({"untrained": before, "trained": scores(test)}, test, ["ndcg@10"]))

"""ADBench: objective and derivative of GMM, BA, LSTM and HAND on the data of tests/data/adbench."""

import numpy

from tests.benchmarks.case import Case
from tests.twins import adbench

gmm = Case(
    "adbench_gmm_d10_k25_n1000",
    lambda: adbench.read_gmm("gmm_d10_K25"),
    flops=3 * 1000 * 25 * (200 + 20 + 25),
    bytes=8 * 1000 * (10 + 25 * 2),
)


def as_parameters(read):
    alphas, means, icf, points, _ = read
    return (alphas, means, icf), points


gmm.data = lambda: as_parameters(adbench.read_gmm("gmm_d10_K25"))
PRIOR = (1.0, 0)


@gmm.program("triskele", "jax", "autograd")
def gmm_gradient(tool):
    return tool.value_and_grad(lambda p, points: adbench.gmm(*p, points, PRIOR, np=tool.np))


@gmm.by_hand("torch")
def gmm_torch(parameters, points):
    import torch

    alphas, means, icf = (torch.from_numpy(p).requires_grad_() for p in parameters)
    points = torch.from_numpy(points)
    n, d = points.shape
    k = len(alphas)
    columns, rows = torch.triu_indices(d, d, 1)
    zero = adbench.gmm(*(numpy.zeros_like(p) for p in parameters), numpy.zeros((n, d)), PRIOR)
    constant = zero - 0.5 * PRIOR[0] ** 2 * k * d  # what does not depend on the parameters

    def run():
        trace = icf[:, :d].sum(1)
        q = torch.diag_embed(icf[:, :d].exp())
        q[:, rows, columns] = icf[:, d:]
        scaled = torch.baddbmm(-(means[:, None] @ q.mT), points.expand(k, n, d), q.mT)
        terms = (alphas + trace)[:, None] - 0.5 * (scaled**2).sum(2)
        prior = 0.5 * PRIOR[0] ** 2 * ((icf[:, :d].exp() ** 2).sum() + (icf[:, d:] ** 2).sum()) - PRIOR[1] * trace.sum()
        value = torch.logsumexp(terms, 0).sum() - n * torch.logsumexp(alphas, 0) + prior + constant
        return value, torch.autograd.grad(value, (alphas, means, icf))

    return run


ba = Case("adbench_ba1", lambda: adbench.read_ba("ba1_n49_m7776_p31843"), flops=31843 * 900, bytes=8 * 31843 * 49)


@ba.program("triskele", "jax", "autograd")
def ba_rows(tool):
    """Both rows of every observation's block of the sparse Jacobian, as two gradients of sums."""
    np = tool.np

    def rows(cameras, points, weights, features):
        def total(variables, k):
            errors = adbench.ba(*variables, features, np=np)
            return np.sum(errors[k])

        return [tool.value_and_grad(total)((cameras, points, weights), k) for k in (0, 1)]

    return rows


@ba.by_hand("torch")
def ba_torch(cameras, points, weights, features):
    import torch

    cameras, points, weights = (torch.from_numpy(a).requires_grad_() for a in (cameras, points, weights))
    features = torch.from_numpy(features)

    def run():
        rotation, x = cameras[:, :3], points - cameras[:, 3:6]
        angle = rotation.norm(dim=1, keepdim=True)
        axis = rotation / angle
        along = (axis * x).sum(1, keepdim=True)
        y = x * angle.cos() + torch.linalg.cross(axis, x) * angle.sin() + axis * along * (1 - angle.cos())
        flat = y[:, :2] / y[:, 2:]
        r2 = (flat**2).sum(1, keepdim=True)
        scale = (1 + cameras[:, 9:10] * r2 + cameras[:, 10:] * r2**2) * cameras[:, 6:7]
        totals = (weights[:, None] * (flat * scale + cameras[:, 7:9] - features)).sum(0)
        variables = (cameras, points, weights)
        first = torch.autograd.grad(totals[0], variables, retain_graph=True)
        return [(totals[0], first), (totals[1], torch.autograd.grad(totals[1], variables))]

    return run


def lstm_data():
    main, extra, state, sequence = adbench.read_lstm("lstm_l2_c1024")
    return (main, extra), state, sequence


lstm = Case("adbench_lstm_l2_c1024", lstm_data, flops=3 * 1023 * 2 * 14 * 130, bytes=8 * 1024 * 14 * 20)


@lstm.program("triskele", "jax", "autograd", "torch")
def lstm_gradient(tool):
    return tool.value_and_grad(lambda p, state, sequence: adbench.lstm(*p, state, sequence, tool.scan, np=tool.np))


def hand_data():
    theta, us, model = adbench.read_hand("complicated1", complicated=True)
    return numpy.concatenate([numpy.zeros(2), theta]), us


hand = Case("adbench_hand_complicated_100", hand_data, flops=29 * (2 * 3 * 88 * 300 + 2 * 300 * 9), bytes=8 * 300 * 28)


@hand.program("triskele", "jax")
def hand_jacobian(tool):
    """Forward mode: 300 outputs of 28 inputs; one shift of all barycentric coordinates gives their sparse columns."""
    np, (_, _, model) = tool.np, adbench.read_hand("complicated1", complicated=True)

    def errors(p, us):
        return np.ravel(adbench.hand(p[2:], us + p[:2], *model, np=np).T)

    return lambda p, us: (errors(p, us), tool.jacfwd(errors)(p, us))


@hand.program("autograd")
def hand_reverse(tool):
    import autograd

    np, (_, _, model) = tool.np, adbench.read_hand("complicated1", complicated=True)

    def errors(p, us):
        return np.ravel(adbench.hand(p[2:], us + p[:2], *model, np=np).T)

    return lambda p, us: (errors(p, us), autograd.jacobian(errors)(p, us))

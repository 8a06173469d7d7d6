"""An oscillator of van der Pol: the gradient of its end by the parameter, at a relative tolerance of 1e-8."""

import numpy

from tests.benchmarks.case import Case

TIMES = numpy.linspace(0.0, 10.0, 11)
case = Case("ode_gradient", lambda: (numpy.float64(2.0), numpy.array([2.0, 0.0])), tolerance=1e-5)


@case.program("triskele")
def ours(tool):
    from triskele import core

    def loss(mu, y0):
        f = lambda y, t, mu: numpy.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])
        return numpy.sum(core.odeint(f, y0, TIMES, (mu,), rtol=1e-8, atol=1e-8)[-1] ** 2)

    return tool.value_and_grad(loss)


@case.program("jax")
def diffrax(tool):
    import diffrax

    np = tool.np

    def loss(mu, y0):
        f = lambda t, y, mu: np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(f),
            diffrax.Dopri5(),
            TIMES[0],
            TIMES[-1],
            None,
            y0,
            args=mu,
            saveat=diffrax.SaveAt(ts=np.asarray(TIMES)),
            stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
        )
        return np.sum(solution.ys[-1] ** 2)

    return tool.value_and_grad(loss)

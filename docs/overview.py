"""Draw the picture at the top of the README: one result of each package, computed in a few minutes.

The picture goes to docs/pages/images/overview.png, or where `--output` says.
"""

import argparse
import runpy
from pathlib import Path

import matplotlib
import numpy as np

from triskele import core, quantum, sponge
from triskele import reinforce as rl
from triskele.sponge import analysis, cv, units

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EXAMPLES = Path(__file__).parents[1] / "examples"


def fit(axes):
    """core: the Lotka-Volterra equations, fitted with gradients through their integration."""
    ode = runpy.run_path(str(EXAMPLES / "core" / "fit_ode.py"))
    data = np.loadtxt(EXAMPLES / "core" / "data" / "hare_lynx.csv", delimiter=",", skiprows=4)
    start = np.concatenate([ode["START"], np.log([0.5, 0.5])])
    theta = core.optim.LBFGS().minimize(ode["negative_log_likelihood"], start, data[:, 1:]).params
    model = np.asarray(ode["trajectory"](theta[:6], len(data) - 1))
    time = data[0, 0] + np.arange(len(model)) / ode["STEPS_PER_YEAR"]
    for k, (name, color) in enumerate([("hares", "tab:blue"), ("lynxes", "tab:red")]):
        axes.plot(time, model[:, k], color=color)
        axes.plot(data[:, 0], data[:, 1 + k], "o", color=color, ms=4, label=name)
    axes.legend(frameon=False, loc="upper right")
    axes.set(title="core: an equation fitted through its solver", xlabel="year", ylabel="thousand pelts", ylim=(0, 105))


def sample(axes, steps=20_000_000):
    """sponge: the free energy of alanine dipeptide in vacuum at 300 K, by integrated tempering."""
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    sits = sponge.SITS(range(22), units.ladder(280, 800, 60))
    angles = sponge.Variables({"phi": cv.torsion(4, 6, 8, 14), "psi": cv.torsion(6, 8, 14, 16)}, every=50)
    simulation = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), sampling=[sits], seed=1)
    simulation.minimize()
    simulation.run(steps // 4)
    sits.produce()
    simulation.run(steps, report=angles)
    surface = analysis.free_energy(angles["phi"], angles["psi"], sits.weights(angles.steps), temperature=300, bins=45)
    surface.plot(axes, highest=40.0)
    axes.set(title="sponge: alanine dipeptide, 40 ns of SITS")


def dissociate(axes):
    """quantum: the ground state of LiH along its bond."""
    lengths, theta, found = quantum.molecules.lengths("LiH"), None, []
    for length in lengths:
        lih = quantum.molecules.load("LiH", length)
        ansatz = quantum.uccsd(lih.num_electrons, lih.num_qubits)
        result = quantum.VQE(lih.hamiltonian, ansatz, initial=theta, simulator="subspace").run()
        theta = result.theta
        found.append((lih.hf_energy, result.energy, lih.fci_energy))
    mean_field, vqe, exact = np.transpose(found)
    axes.plot(lengths, mean_field, "--", color="0.5", label="Hartree-Fock")
    axes.plot(lengths, exact, color="tab:blue", label="exact (FCI)")
    axes.plot(lengths, vqe, "o", color="tab:red", ms=5, label="VQE, 12 qubits")
    axes.legend(frameon=False)
    axes.set(title="quantum: lithium hydride by VQE", xlabel="bond length / Å", ylabel="energy / hartree")


def learn(axes, seeds=5, steps=300_000, evaluations=36):
    """reinforce: evaluations of PPO on CartPole between iterations of its training, and their median over the seeds."""
    marks, returns = np.geomspace(512, steps, evaluations), []
    for seed in range(seeds):
        agent, points = rl.PPO("CartPole-v1", seed=seed), []

        def evaluate(record, agent=agent, points=points):
            if len(points) < evaluations and record["step"] >= 0.999 * marks[len(points)]:
                points.append((record["step"], agent.evaluate(100).mean))

        agent.train(steps, report=evaluate)
        trained, means = np.transpose(points)
        axes.plot(trained, means, color="tab:blue", lw=1, alpha=0.4)
        returns.append(means)
    axes.plot(trained, np.median(returns, axis=0), color="tab:blue", lw=2.5, label=f"median of {seeds} seeds")
    axes.legend(frameon=False, loc="lower right")
    axes.set(
        title="reinforce: evaluations of PPO on CartPole",
        xlabel="steps of training",
        xscale="log",
        ylabel="mean return of 100 episodes",
        ylim=(0, 515),
    )


def main(output):
    figure, axes = plt.subplots(2, 2, figsize=(10, 7))
    for draw, panel in zip((fit, sample, dissociate, learn), axes.flat, strict=True):
        draw(panel)
        panel.spines[["top", "right"]].set_visible(False)
    surface = axes[0, 1].collections[0]
    label = surface.colorbar.ax.get_ylabel()
    surface.colorbar.remove()  # it took its place from the panel, which would stand out of line
    figure.colorbar(surface, cax=axes[0, 1].inset_axes([1.03, 0.0, 0.04, 1.0]), label=label)
    axes[0, 1].set_aspect("auto")
    figure.subplots_adjust(left=0.08, right=0.91, bottom=0.08, top=0.95, wspace=0.28, hspace=0.32)
    figure.align_ylabels(axes)
    figure.savefig(output, dpi=110, bbox_inches="tight")
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default=Path(__file__).parent / "pages" / "images" / "overview.png")
    main(parser.parse_args().output)

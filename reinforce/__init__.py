"""Tree search and reinforcement learning: games, environments, searches, agents."""

if __name__ != "triskele.reinforce":
    raise ImportError(f"import this package as triskele.reinforce, not as {__name__!r}")

from importlib import import_module as _import_module
from typing import Any as _Any

_LAZY = {  # name: module that defines it
    "Agent": "triskele.reinforce.training.agent",
    "AlphaZero": "triskele.reinforce.agents.alphazero",
    "BatchFunction": "triskele.reinforce.mcts.network",
    "Box": "triskele.reinforce.vector.spaces",
    "BufferError": "triskele.reinforce.errors",
    "CHANCE": "triskele.reinforce.game",
    "CSV": "triskele.reinforce.training.report",
    "CheckpointError": "triskele.reinforce.errors",
    "DQN": "triskele.reinforce.agents.dqn",
    "Discrete": "triskele.reinforce.vector.spaces",
    "DistributionError": "triskele.reinforce.errors",
    "EnvError": "triskele.reinforce.errors",
    "Environment": "triskele.reinforce.vector.environment",
    "Evaluation": "triskele.reinforce.training.evaluation",
    "EvaluatorError": "triskele.reinforce.errors",
    "Game": "triskele.reinforce.game",
    "GameError": "triskele.reinforce.errors",
    "Gumbel": "triskele.reinforce.mcts.gumbel",
    "GumbelMuZero": "triskele.reinforce.agents.gumbel_muzero",
    "Human": "triskele.reinforce.matches.players",
    "IllegalActionError": "triskele.reinforce.errors",
    "LaneEnvironment": "triskele.reinforce.vector.environment",
    "LearnedModel": "triskele.reinforce.mcts.learned",
    "MCTS": "triskele.reinforce.mcts.search",
    "MPI": "triskele.reinforce.distribution.mpi",
    "MatchResult": "triskele.reinforce.matches.match",
    "MuZero": "triskele.reinforce.mcts.learned",
    "MuZeroPUCT": "triskele.reinforce.mcts.muzero",
    "Network": "triskele.reinforce.mcts.network",
    "OneProcess": "triskele.reinforce.distribution.policies",
    "PPO": "triskele.reinforce.agents.ppo",
    "PUCT": "triskele.reinforce.mcts.policies",
    "Policy": "triskele.reinforce.policy",
    "PolicyValue": "triskele.reinforce.agents.networks",
    "PrioritizedReplayBuffer": "triskele.reinforce.buffers.prioritized",
    "Random": "triskele.reinforce.matches.players",
    "RandomRollout": "triskele.reinforce.mcts.evaluators",
    "ReinforceError": "triskele.reinforce.errors",
    "ReplayBuffer": "triskele.reinforce.buffers.replay",
    "Report": "triskele.reinforce.training.report",
    "Rules": "triskele.reinforce.game",
    "SAC": "triskele.reinforce.agents.sac",
    "SearchError": "triskele.reinforce.errors",
    "SearchResult": "triskele.reinforce.mcts.result",
    "State": "triskele.reinforce.game",
    "SumTree": "triskele.reinforce.buffers.sum_tree",
    "Support": "triskele.reinforce.agents.muzero_network",
    "TensorBoard": "triskele.reinforce.training.report",
    "Threads": "triskele.reinforce.distribution.policies",
    "TrajectoryBuffer": "triskele.reinforce.buffers.trajectory",
    "UCT": "triskele.reinforce.mcts.policies",
    "VectorEnv": "triskele.reinforce.vector.env",
    "check_env": "triskele.reinforce.checks.env",
    "check_game": "triskele.reinforce.checks.game",
    "from_gymnasium": "triskele.reinforce.adapters.gymnasium",
    "from_openspiel": "triskele.reinforce.adapters.openspiel",
    "from_pettingzoo": "triskele.reinforce.adapters.pettingzoo",
    "load_policy": "triskele.reinforce.policy",
    "load_tree": "triskele.reinforce.mcts.show",
    "make": "triskele.reinforce.vector.env",
    "play_match": "triskele.reinforce.matches.match",
    "register_gymnasium": "triskele.reinforce.vector.gymnasium_envs",
}
_PACKAGES = ("envs", "games", "returns", "transforms")


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return getattr(_import_module(_LAZY[name]), name)
    if name in _PACKAGES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


__all__ = sorted([*_LAZY, *_PACKAGES])

"""Tree search and reinforcement learning: games, environments, searches, agents."""

if __name__ != "triskele.reinforce":
    raise ImportError(f"import this package as triskele.reinforce, not as {__name__!r}")

from importlib import import_module as _import_module
from typing import Any as _Any

_LAZY = {  # name: module that defines it
    "Box": "triskele.reinforce.spaces",
    "BufferError": "triskele.reinforce.errors",
    "CHANCE": "triskele.reinforce.game",
    "CheckpointError": "triskele.reinforce.errors",
    "Discrete": "triskele.reinforce.spaces",
    "EnvError": "triskele.reinforce.errors",
    "Environment": "triskele.reinforce.env",
    "EvaluatorError": "triskele.reinforce.errors",
    "Game": "triskele.reinforce.game",
    "GameError": "triskele.reinforce.errors",
    "IllegalActionError": "triskele.reinforce.errors",
    "LaneEnvironment": "triskele.reinforce.env",
    "ReinforceError": "triskele.reinforce.errors",
    "Rules": "triskele.reinforce.game",
    "SearchError": "triskele.reinforce.errors",
    "State": "triskele.reinforce.game",
    "VectorEnv": "triskele.reinforce.env",
    "check_env": "triskele.reinforce.env_check",
    "from_gymnasium": "triskele.reinforce.adapters.gymnasium",
    "from_openspiel": "triskele.reinforce.adapters.openspiel",
    "from_pettingzoo": "triskele.reinforce.adapters.pettingzoo",
    "make": "triskele.reinforce.env",
    "register_gymnasium": "triskele.reinforce.gymnasium_envs",
}
_PACKAGES = ("envs", "games")


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return getattr(_import_module(_LAZY[name]), name)
    if name in _PACKAGES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


__all__ = sorted([*_LAZY, *_PACKAGES])

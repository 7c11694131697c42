"""Model, pool and table of one device, and the step that runs on them (mini-sglang: engine/)."""

from .config import EngineConfig
from .engine import Engine, ForwardOutput, LoadedModel, load_model
from .graph import GraphRunner
from .sample import BatchSamplingArgs, Sampler, sample_impl

__all__ = [
    "BatchSamplingArgs",
    "Engine",
    "EngineConfig",
    "ForwardOutput",
    "GraphRunner",
    "LoadedModel",
    "Sampler",
    "load_model",
    "sample_impl",
]

"""Tensor parallelism: who this rank is, and the two collectives a layer needs."""

from .impl import DistributedCommunicator
from .info import DistributedInfo, get_tp_info, set_tp_info, try_get_tp_info, use_tp_info
from .launch import destroy_distributed, init_from_env

__all__ = [
    "DistributedCommunicator",
    "DistributedInfo",
    "destroy_distributed",
    "get_tp_info",
    "init_from_env",
    "set_tp_info",
    "try_get_tp_info",
    "use_tp_info",
]

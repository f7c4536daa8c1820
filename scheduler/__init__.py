"""The GPU side of the hand-off: intake, admission, batch and engines.

``Intake`` is the face for serving systems that bring their own loop. What an engine in torch does with a feature is
``scheduler.engines.tensors.model_tensor``; it is not named here, because this package must not import torch.
"""

from handoff.moves import End
from scheduler.intake import Intake, Taken
from scheduler.opening import open_intake
from scheduler.ranks import Broadcast, Ranks, torch_broadcast
from scheduler.settings import SchedulerSettings

__all__ = ["Broadcast", "End", "Intake", "Ranks", "SchedulerSettings", "Taken", "open_intake", "torch_broadcast"]

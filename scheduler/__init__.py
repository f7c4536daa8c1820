"""The GPU side of the hand-off: intake, admission, batch and engines.

``Intake`` is the face for serving systems that bring their own loop.
"""

from scheduler.intake import Intake, Taken

__all__ = ["Intake", "Taken"]

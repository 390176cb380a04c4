"""forcelab: manager-based reinforcement-learning environments for robots that feel force."""

__version__ = "0.1.0"

# SPDX-License-Identifier: Apache-2.0
"""Settings of the learning agent: rsl_rl's PPO and its networks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass
class DistributionCfg:
    """Distribution of the actions.

    Attributes:
        class_name: ``GaussianDistribution``, ``HeteroscedasticGaussianDistribution``, ``BetaDistribution``
            or a dotted path.
        init_std: Standard deviation at the start of training.
        std_type: ``scalar`` learns the deviation itself, ``log`` its logarithm.
        extra: Further keyword arguments of the class.
    """

    class_name: str = "GaussianDistribution"
    init_std: float = 1.0
    std_type: Literal["scalar", "log"] = "scalar"
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class ModelCfg:
    """One network, the actor or the critic.

    Attributes:
        class_name: ``MLPModel``, ``RNNModel``, ``CNNModel`` or a dotted path.
        hidden_dims: Width of each hidden layer.
        activation: ``elu``, ``relu``, ``tanh``, …
        obs_normalization: Normalise observations by their running mean and deviation.
        distribution: The actor's distribution of actions; None for a deterministic output (the critic).
        extra: Further keyword arguments of the class, such as ``rnn_type``.
    """

    class_name: str = "MLPModel"
    hidden_dims: list[int] = field(default_factory=lambda: [512, 256, 128])
    activation: str = "elu"
    obs_normalization: bool = False
    distribution: DistributionCfg | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class AlgorithmCfg:
    """Proximal policy optimisation; the names are rsl_rl's.

    Attributes:
        extra: Further keyword arguments of the class, such as ``rnd_cfg`` or ``symmetry_cfg``.
    """

    class_name: str = "PPO"
    num_learning_epochs: int = 5
    num_mini_batches: int = 4
    clip_param: float = 0.2
    gamma: float = 0.99
    lam: float = 0.95
    value_loss_coef: float = 1.0
    use_clipped_value_loss: bool = True
    entropy_coef: float = 0.01
    learning_rate: float = 1e-3
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    desired_kl: float = 0.01
    max_grad_norm: float = 1.0
    normalize_advantage_per_mini_batch: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class AgentCfg:
    """How a policy is trained.

    Attributes:
        experiment_name: Folder of the runs below ``logs/``.
        run_name: Appended to the name of the run's own folder.
        logger: ``tensorboard`` or ``wandb``.
        num_steps_per_env: Environment steps of one rollout.
        max_iterations: Training iterations (rollout and update).
        save_interval: Iterations between checkpoints.
        init_at_random_ep_len: Start training with episodes of different ages.
        clip_actions: Actions are clamped to ± this value; None: not clamped.
        obs_groups: Observation set (``actor``, ``critic``) → observation groups of the environment.
        torch_compile_mode: Passed to ``torch.compile``; None: not compiled.
        capture_inference: Run the networks of a rollout as one CUDA graph. Without effect, and with a warning, on the
            CPU, for recurrent networks and together with ``torch_compile_mode``.
    """

    experiment_name: str = "forcelab"
    run_name: str = ""
    logger: Literal["tensorboard", "wandb"] = "tensorboard"
    num_steps_per_env: int = 24
    max_iterations: int = 1500
    save_interval: int = 50
    init_at_random_ep_len: bool = True
    clip_actions: float | None = None
    obs_groups: dict[str, list[str]] = field(
        default_factory=lambda: {"actor": ["policy"], "critic": ["critic"]}
    )
    torch_compile_mode: str | None = None
    capture_inference: bool = False
    actor: ModelCfg = field(default_factory=lambda: ModelCfg(distribution=DistributionCfg()))
    critic: ModelCfg = field(default_factory=ModelCfg)
    algorithm: AlgorithmCfg = field(default_factory=AlgorithmCfg)

    def to_rsl_rl(self) -> dict[str, Any]:
        """The dictionary that rsl_rl's ``OnPolicyRunner`` takes."""
        return {
            "class_name": "OnPolicyRunner",
            "experiment_name": self.experiment_name,
            "run_name": self.run_name,
            "logger": self.logger,
            "num_steps_per_env": self.num_steps_per_env,
            "max_iterations": self.max_iterations,
            "save_interval": self.save_interval,
            # The environment detects NaN itself; rsl_rl's check waits for the device at every step.
            "check_for_nan": False,
            "torch_compile_mode": self.torch_compile_mode,
            "obs_groups": {name: list(groups) for name, groups in self.obs_groups.items()},
            "actor": _model(self.actor),
            "critic": _model(self.critic),
            "algorithm": _flat(self.algorithm),
        }


def _flat(cfg: Any) -> dict[str, Any]:
    values = {f.name: getattr(cfg, f.name) for f in dataclasses.fields(cfg)}
    extra = values.pop("extra")
    return {**values, **extra}


def _model(cfg: ModelCfg) -> dict[str, Any]:
    values = _flat(cfg)
    distribution = values.pop("distribution")
    if distribution is not None:
        options = _flat(distribution)
        if distribution.class_name.endswith("BetaDistribution"):
            # It has no standard deviation.
            options = {k: v for k, v in options.items() if k not in ("init_std", "std_type")}
        values["distribution_cfg"] = options
    values["hidden_dims"] = list(values["hidden_dims"])
    return values

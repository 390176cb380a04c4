# SPDX-License-Identifier: Apache-2.0
"""Runs of a sweep through one of Hydra's launchers: several at once, or as jobs of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import overrides as ov
from .errors import ConfigError

_NAME = "forcelab_sweep"
#: Where Hydra's launchers come from, by the beginning of their names.
_PACKAGES = {
    "joblib": "hydra-joblib-launcher",
    "submitit": "hydra-submitit-launcher",
    "ray": "hydra-ray-launcher",
    "rq": "hydra-rq-launcher",
}


def take_launcher(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate what Hydra is told: ``hydra/launcher=…``, ``hydra.launcher.…``, ``hydra.sweep.…``, ``hydra.job.…``.

    Returns:
        Hydra's words, empty when no launcher but the basic one is asked for, and the remaining overrides.
    """
    words, rest = [], []
    launcher = "basic"
    for text in texts:
        _, key, raw = ov.split(text)
        if key == "hydra/launcher":
            launcher = str(raw)
            words.append(text)
        elif key.startswith(("hydra.launcher.", "hydra.sweep.", "hydra.job.")):
            words.append(text)
        else:
            rest.append(text)
    return ([], list(texts)) if launcher == "basic" else (words, rest)


def launch(function: Callable[[int], int], number: int, words: Sequence[str]) -> list[int]:
    """Call ``function`` with 0 … ``number`` - 1, each as one job of a launcher, and wait for all.

    Args:
        function: What a job does; it is pickled and must be found by import in another process.
        number: Number of jobs.
        words: Overrides of Hydra's own configuration, among them ``hydra/launcher=…``.

    Returns:
        What the jobs returned, in order.

    Raises:
        ConfigError: The launcher is not installed, or a setting does not exist.
    """
    from hydra import version
    from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
    from hydra._internal.hydra import Hydra
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.errors import HydraException
    from hydra.types import RunMode

    version.setbase("1.3")
    Plugins.instance()  # finds launchers that are installed
    ConfigStore.instance().store(name=_NAME, node={"job": 0})
    search_path = ConfigSearchPathImpl()
    search_path.append("hydra", "pkg://hydra.conf")
    search_path.append("schema", "structured://")
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    overrides = [
        "hydra.output_subdir=null",
        "hydra/job_logging=none",
        f"job={','.join(str(i) for i in range(number))}",
        *words,
    ]
    try:
        hydra = Hydra.create_main_hydra2("forcelab", search_path)
        try:
            # A wrong setting is found here, before anything runs.
            hydra.compose_config(_NAME, overrides, run_mode=RunMode.MULTIRUN, with_log_configuration=False)
        except HydraException as error:
            raise ConfigError(_explain(error, words)) from error
        batches = hydra.multirun(_NAME, _Job(function), overrides, with_log_configuration=False)
    finally:
        GlobalHydra.instance().clear()
        if outer is not None:
            GlobalHydra.instance().initialize(outer)
    return [int(job.return_value) for batch in batches for job in batch]


class _Job:
    """A job's function, given the configuration that says which one it is."""

    def __init__(self, function: Callable[[int], int]):
        self.function = function

    def __call__(self, cfg: Any) -> int:
        return self.function(int(cfg.job))


def _explain(error: Exception, words: Sequence[str]) -> str:
    name = next(str(ov.split(w)[2]) for w in words if ov.split(w)[1] == "hydra/launcher")
    text = " ".join(str(error).split())
    if "hydra/launcher" in text:
        package = _PACKAGES.get(name.partition("_")[0])
        if package is not None:
            return f"hydra/launcher={name} needs a package that is not installed. Run `pip install {package}`"
        return f"there is no hydra/launcher={name}; installed are those that Hydra names: {text}"
    return text

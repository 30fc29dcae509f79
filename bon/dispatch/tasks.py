"""Independent long tasks on Ray, one result each, in the order in which they end."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from bon.dispatch.connection import Connection, RayLost
from bon.dispatch.nodes import check_width
from bon.experiment.config import Placement

POLL_SECONDS = 1.0


def run_tasks(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    connection: Connection,
    *,
    cpus: float,
    gpus: float,
) -> Iterator[tuple[int, Any]]:
    """Yield (index, result) of `function(*arguments[index])`.

    A task whose worker or node dies is repeated, and all open ones after a lost Ray; an exception
    of the function is the result.
    """
    wide = Placement(cpus=cpus, gpus=gpus)
    check_width("a task of this run", wide, connection.state.nodes.values())
    remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=2)(_settled)
    left = set(range(len(arguments)))
    while left:
        try:
            open_tasks = {remote.remote(function, arguments[i]): i for i in sorted(left)}
            while open_tasks:
                ready, _ = ray.wait(list(open_tasks), timeout=POLL_SECONDS)
                connection.check()
                for task in ready:
                    index = open_tasks.pop(task)
                    left.discard(index)
                    try:
                        result = ray.get(task)
                    except ray.exceptions.RayError as error:
                        result = error
                    yield index, result
        except RayLost as lost:
            connection.reconnect(lost)


def _settled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return error

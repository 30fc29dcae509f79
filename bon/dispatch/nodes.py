"""What the nodes of a cluster have, and whether one of them has room for a worker."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bon.core.errors import BonError
from bon.experiment.config import Placement


class Node(NamedTuple):
    """The resources of a node in all."""

    cpus: float = 0.0
    gpus: float = 0.0


def lacking(placement: Placement, nodes: Iterable[Node]) -> str:
    """Return what of a placement no node has, with what they have; "" if one has all of it."""
    nodes, need = list(nodes), Node(placement.cpus, placement.gpus)
    if any(need.cpus <= node.cpus and need.gpus <= node.gpus for node in nodes):
        return ""
    where = "Ray has" if len(nodes) == 1 else f"the largest of Ray's {len(nodes)} nodes has"
    for name, unit in (("gpus", "GPU"), ("cpus", "CPU")):
        wanted, most = getattr(need, name), max((getattr(n, name) for n in nodes), default=0)
        if wanted > most:
            return f"needs {wanted:g} {unit} per actor, and {where} {most:g}"
    return f"needs {need.gpus:g} GPU and {need.cpus:g} CPU per actor, and no node has both"


def check_width(who: str, placement: Placement, nodes: Iterable[Node]) -> None:
    """Raise BonError for workers that are wider than every node: they would wait for ever."""
    if problem := lacking(placement, nodes):
        fix = "set placement.gpus and placement.cpus, or use larger nodes with --ray-address"
        raise BonError(f"{who}: {problem}", fix)


def has_room(
    nodes: Mapping[str, Node], workers: Iterable[tuple[str, Placement]], placement: Placement
) -> bool:
    """Whether one more worker has room beside others, whose node is "" while Ray looks for one.

    As in Ray, a worker is on one node, and a share of a GPU on one GPU.
    """
    cpus = {key: node.cpus for key, node in nodes.items()}
    gpus = {key: [1.0] * int(node.gpus) for key, node in nodes.items()}

    def place(need: Placement, node: str) -> bool:
        whole = int(need.gpus) if need.gpus >= 1 else 0
        share = need.gpus - whole
        free = sorted(gpus[node])  # the fullest first
        for _ in range(whole):
            if not free or free.pop() < 1:
                return False
        if share:
            fitting = [each for each in free if each + 1e-9 >= share]
            if not fitting:
                return False
            free.remove(fitting[0])
            free.append(fitting[0] - share)
        if need.cpus > cpus[node] + 1e-9:
            return False
        cpus[node] -= need.cpus
        gpus[node] = free + [0.0] * whole
        return True

    for node, each in sorted(workers, key=lambda worker: not worker[0]):
        any(place(each, key) for key in ([node] if node in nodes else nodes))
    return any(place(placement, key) for key in nodes)

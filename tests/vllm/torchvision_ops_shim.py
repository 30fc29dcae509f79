"""Lets torchvision's Python half be imported where its compiled half does not fit torch.

Only for the test environment: `setup.sh` copies this beside torch and a .pth file runs it at the
start of every Python there, also of vLLM's child processes. Two operators that torchvision expects
to exist are declared just before it is imported; nothing ever calls them.
"""

import sys
from importlib.abc import MetaPathFinder


class _DeclareOperators(MetaPathFinder):
    library = None

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            type(self).library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                type(self).library.define(operator + boxes)


sys.meta_path.insert(0, _DeclareOperators())

"""Print how every reader does on the cases: python -m tests.conformance."""

import logging

from tests.conformance.readers import table

ROW = "| {:<10} | {:<24} | {:>10} | {:>10} | {:>6} | {:>15} | {:>14} |"

logging.disable()
print(
    ROW.format(
        "kind", "reader", "read right", "read wrong", "unread", "nothing: unread", "nothing: read"
    )
)
print("|---|---|---|---|---|---|---|")
for (kind, name), row in table().items():
    print(
        ROW.format(kind, name, *(row[o] for o in ("right", "wrong", "unread", "quiet", "silent")))
    )
print(
    "VLMEvalKit and lmms-eval: their rules in bon, without the models they ask; "
    "vlmeval is on no index."
)

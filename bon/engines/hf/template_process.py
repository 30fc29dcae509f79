"""The process in which chat templates are rendered; it reads and writes one JSON value per line.

It imports nothing of bon, holds no secret and stays within `SECONDS` of processor time and
`MEMORY` bytes per template, so that what a checkpoint brings can stop neither a worker nor the
machine. The environment is that which transformers gives templates.
"""

import json
import resource
import signal
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

SECONDS, MEMORY, MAX_CHARS = 5.0, 512 * 1024**2, 16_000_000


class Generation(Extension):
    """`{% generation %}` marks what the assistant wrote, for training: the text as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return what the block holds."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> ImmutableSandboxedEnvironment:
    """Return the environment of chat templates."""

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **layout: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **layout)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def main() -> None:
    """Answer requests until standard input ends; the kernel ends what takes too long."""
    made, compiled = environment(), dict[str, Any]()
    with suppress(OSError, ValueError):  # of Linux; elsewhere time and length are limited alone
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the engine ends this process
    print("ready", flush=True)
    for line in sys.stdin:
        template, values = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if values is None:
                reply: Any = sorted(meta.find_undeclared_variables(made.parse(template)))
            else:
                if template not in compiled:
                    compiled[template] = made.from_string(template)
                reply = compiled[template].render(**values)
                if len(reply) > MAX_CHARS:
                    raise MemoryError
            answer = {"reply": reply}
        except MemoryError:
            sys.exit(1)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()

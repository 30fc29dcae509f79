"""Make the checkpoints from seeds: `python -m tools.miniature.train --out FOLDER`.

Stages are cached under --work and run two at a time with one thread each, which on two cores
is faster than one at a time with two threads. A stage can be made again alone with --stage.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bon.dispatch.module_path import module_command

HERE = Path(__file__).parents[1]


def main() -> int:
    """Run what is not cached, then publish; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.miniature.train", description=__doc__)
    parser.add_argument("--out", type=Path, help="where checkpoints, pairs and manifest go")
    parser.add_argument("--work", type=Path, default=Path("build/miniature"), help="the cache")
    parser.add_argument("--stage", action="append", help="make only this stage, again")
    parser.add_argument("--jobs", type=int, default=2, help="stages at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads a stage")
    parser.add_argument(
        "--smoke", action="store_true", help="two small steps per phase, half a minute"
    )
    parser.add_argument("--list", action="store_true", help="list the stages and what is cached")
    args = parser.parse_args()
    if args.smoke and args.work == parser.get_default("work"):
        args.work = Path(tempfile.mkdtemp(prefix="miniature-smoke-"))

    from tools.miniature import fit
    from tools.miniature.stages import Workshop, set_threads, stages

    shop = Workshop(args.work, args.smoke)
    if args.smoke:
        fit.BATCH = 8
    known = stages()
    if args.list:
        for name, stage in known.items():
            print(f"{'done' if shop.is_done(name) else '    '}  {name}  ({', '.join(stage.needs)})")
        return 0
    unknown = sorted(set(args.stage or ()) - set(known))
    if unknown:
        print(f"no such stage: {', '.join(unknown)}; see --list", file=sys.stderr)
        return 2
    set_threads(args.threads)
    if args.stage:
        for name in args.stage:
            shop.run(known[name])
    elif args.smoke:  # one process: loading torch would take longer than the stages
        for stage in known.values():
            shop.run(stage)
    else:
        failed = _schedule(args, {n: s.needs for n, s in known.items()}, shop.is_done)
        if failed:
            print(f"stage {failed} failed; its log is {args.work / failed}.log", file=sys.stderr)
            return 1
    if args.out:
        from tools.miniature.publish import publish

        publish(shop, args.out)
    return 0


def _schedule(args: argparse.Namespace, needs: dict[str, tuple[str, ...]], is_done) -> str:  # type: ignore[no-untyped-def]
    """Run every stage that is not cached, each in a process of its own; returns what failed."""
    args.work.mkdir(parents=True, exist_ok=True)
    waiting = [name for name in needs if not is_done(name)]
    running: dict[str, subprocess.Popen[bytes]] = {}
    began = time.time()
    failed = ""
    while (waiting and not failed) or running:
        for name in list(waiting):
            ready = all(is_done(need) for need in needs[name])
            if ready and not failed and len(running) < args.jobs:
                waiting.remove(name)
                options = ["--work", str(args.work), "--threads", str(args.threads)]
                command = module_command("tools.miniature.train", "--stage", name, *options)
                with (args.work / f"{name}.log").open("wb") as log:
                    running[name] = subprocess.Popen(command, stdout=log, stderr=log)
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                failed = failed or ("" if is_done(name) and not process.returncode else name)
                print(
                    f"{time.time() - began:6.0f} s  {name}  exit {process.returncode}", flush=True
                )
        time.sleep(0.2)
    return failed


if __name__ == "__main__":
    sys.exit(main())

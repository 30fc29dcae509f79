#!/bin/sh
# Sets up the vLLM environment if need be and runs its tests; skips visibly where it cannot.
#
#   sh tests/vllm/run.sh [pytest arguments]
set -u
cd "$(dirname "$0")/../.."
folder=${VLLM_VENV:-build/vllm-venv}
sh tests/vllm/setup.sh "$folder" || exit 1
[ -f "$folder/ready" ] || exit 0
exec "$folder/bin/python" -m pytest tests/vllm "$@"

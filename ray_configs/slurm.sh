#!/usr/bin/env bash
# sbatch ray_configs/slurm.sh EXPERIMENT.yaml [OUT]
# A Ray cluster over the nodes of one Slurm job, then `bon run` on it. Submitted again with the
# same OUT it goes on where the time limit, or a dead node, ended it.
#SBATCH --job-name=bon
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --signal=B:INT@120
#SBATCH --output=bon-%j.log
set -euo pipefail

experiment=${1:?usage: sbatch slurm.sh EXPERIMENT.yaml [OUT]}
out=${2:-runs/$(basename "$experiment" .yaml)}
port=${RAY_PORT:-6379}
# A token that only this job's processes know, and a folder on every node that only its user enters
# (docs/cluster.md).
export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN
export BON_RAY_FOLDER=/tmp/bon-$SLURM_JOB_ID

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
head_ip=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | awk '{print $1}')
address=$head_ip:$port

start() {  # NODE ARGUMENTS...: a Ray node that lasts as long as its srun step
  local node=$1
  shift
  # A step inherits no --cpus-per-task from the job (since Slurm 22.05): it would have one core.
  srun --nodes=1 --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --overlap -w "$node" \
    bash -c 'mkdir -m 700 "$BON_RAY_FOLDER" && trap "rm -rf $BON_RAY_FOLDER" EXIT && "$@"' - \
    ray start "$@" --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus "${SLURM_GPUS_ON_NODE:-0}" \
    --disable-usage-stats --block &
}

start "$head" --head --node-ip-address "$head_ip" --port "$port" --temp-dir "$BON_RAY_FOLDER/ray"
head_step=$!
for attempt in $(seq 60); do
  ray health-check --address "$address" 2> /dev/null && break
  if [ "$attempt" = 60 ] || ! kill -0 "$head_step" 2> /dev/null; then
    echo "the Ray head did not start" >&2
    exit 1
  fi
  sleep 2
done
for node in "${nodes[@]:1}"; do
  start "$node" --address "$address"
done
# `bon run` plans with the nodes it finds. After two minutes or so it starts with those there are.
for attempt in $(seq 40); do
  joined=$(ray status --address "$address" 2> /dev/null | grep -c " node_" || true)
  [ "$joined" -ge "${#nodes[@]}" ] && break
  sleep 2
done
echo "$joined of ${#nodes[@]} nodes"

# Two minutes before the time limit Slurm sends INT: what was computed is committed.
set -m  # else bash starts it deaf to INT
bon run "$experiment" --out "$out" --ray-address "$address" &
driver=$!
set +m
stopped=
trap 'stopped=1; kill -INT "$driver"' INT TERM
code=0
wait -n || code=$?
if kill -0 "$driver" 2> /dev/null; then
  # A Ray node that ends stops the run, as a node that Slurm loses ends the job. Submitted again,
  # it goes on.
  [ "$stopped" ] || { echo "a Ray node ended" >&2; kill -INT "$driver"; }
  wait "$driver" || code=$?
fi
exit "$code"

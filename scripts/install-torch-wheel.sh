#!/usr/bin/env bash
# Makes a virtual environment outside the repository with one PyTorch from PyPI, to run on the CPU, and prints the path of
# its interpreter: install-torch-wheel.sh [VERSION]. Does nothing where it is there already.
#
# A wheel for Linux links the CUDA libraries and does not load without them. These requirements are left out, as far as
# `import torch` on the CPU does not load them: triton, cuda-bindings, cuSOLVER, NVRTC, NVTX (3.6 of 4.7 GB remain for
# 2.11.0).
set -euo pipefail
version=${1:-2.11.0}
folder=${PROFTRACE_TORCH_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/proftrace}/torch-$version
base_python=${PROFTRACE_BASE_PYTHON:-/usr/bin/python3}
python=$folder/bin/python

say() { printf 'install-torch-wheel: %s\n' "$*" >&2; }

if [ -e "$folder/.complete" ] && "$python" -c 'import torch' 2>/dev/null; then
  echo "$python"
  exit 0
fi

say "making $folder with torch $version from PyPI (about 3.6 GB)"
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
"$base_python" -m venv "$folder" >&2
# pip ends with a complaint about each requirement that is left out on purpose.
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir "$@" 2>&1 |
    sed "/dependency resolver does not currently/d; /which is not installed/d" >&2
}
install --no-deps "torch==$version"
mapfile -t requirements < <("$python" - <<'PYTHON'
import importlib.metadata
import re

from pip._vendor.packaging.markers import Marker

torch = importlib.metadata.distribution("torch")
needed = torch.locate_file("torch/lib/libtorch_global_deps.so").read_bytes()
left_out = ["triton", "cuda-bindings", "setuptools"]
for name, library in (("nvtx", b"libnvToolsExt"), ("cusolver", b"libcusolver"), ("nvrtc", b"libnvrtc")):
    if library not in needed:
        left_out += [f"nvidia-{name}", f"nvidia-cuda-{name}", name]
for line in torch.requires or []:
    requirement, _, marker = (part.strip() for part in line.partition(";"))
    if "extra ==" in marker or (marker and not Marker(marker).evaluate()):
        continue
    if re.match(rf"({'|'.join(left_out)})\b", requirement):
        continue
    extras = rf"\b({'|'.join(left_out)})\b,?"
    print(re.sub(extras, "", requirement).replace(",]", "]") if "[" in requirement else requirement)
PYTHON
)
# Older wheels were built before numpy 2.
case $version in
  1.* | 2.[0-2].*) numpy="numpy<2" ;;
  *) numpy=numpy ;;
esac
install "${requirements[@]}" "$numpy"
"$python" -c 'import torch; torch.ones(2).sum()' >&2
touch "$folder/.complete"
echo "$python"

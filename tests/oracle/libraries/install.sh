#!/usr/bin/env bash
# Puts the libraries of the oracle's jobs (jobs/libraries.py) into a folder for PYTHONPATH, outside the repository, beside a PyTorch
# that is not touched: install.sh FOLDER PYTHON, with the interpreter that scripts/install-torch-wheel.sh prints.
# About 460 MB. They come without their dependencies, which would bring another torch: those that are needed are named.
set -euo pipefail
folder=${1:?usage: install.sh FOLDER PYTHON}
python=${2:?usage: install.sh FOLDER PYTHON}
# torchvision's operators are compiled for one version of torch.
case $("$python" -c 'import torch; print(torch.__version__.split("+")[0])') in
  2.11.0) torchvision=0.26.0 ;;
  *) torchvision=${PROFTRACE_TORCHVISION:?which version of torchvision belongs to this torch?} ;;
esac
"$python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --target "$folder" \
  torchvision==$torchvision transformers==5.24.0 diffusers==0.42.1 accelerate==1.15.0 peft==0.21.2 timm==1.0.31 \
  lightning==2.6.6 pytorch_lightning torchmetrics==1.9.0 torch_geometric==2.8.1 tensordict==0.15.3 torchrl==0.14.1 einops==0.8.2 \
  tokenizers safetensors huggingface_hub hf_xet regex pyyaml tqdm requests urllib3 certifi charset_normalizer idna packaging \
  httpx httpcore httpx2 httpcore2 truststore h11 anyio sniffio typer click shellingham rich pygments markdown-it-py mdurl \
  annotated-doc pillow psutil lightning_utilities aiohttp aiosignal frozenlist multidict yarl propcache attrs aiohappyeyeballs \
  pyparsing xxhash cloudpickle orjson importlib_metadata zipp pyvers
echo "PYTHONPATH=$folder PROFTRACE_LIBRARIES_PYTHON=$python"

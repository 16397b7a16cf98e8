#!/bin/sh
# Called by the Dockerfile in both stages: install torch, if the base has none; what the project asks for; and the kit.
# The base's torch stays as it is, so a requirement that it does not meet ends the build. The kit and what it needs are
# in /opt/kit, which Python searches last: the project's own packages come first for its programs.
#
#   install.sh [requirements.txt or pyproject.toml]
#
# TORCH says which torch, and TORCH_CPU, if set, is a package index with PyTorch's CPU-only builds.
set -eu
here=$(dirname "$0")
pip="python -m pip --disable-pip-version-check install --quiet --no-cache-dir --root-user-action ignore"
export PIP_BREAK_SYSTEM_PACKAGES=1  # also on a base whose Python is the distribution's

if ! python -m pip show --quiet torch 2> /dev/null; then
  $pip ${TORCH_CPU:+--index-url "$TORCH_CPU"} $TORCH
fi

if [ -n "${1:-}" ]; then
  of_torch='^(torch|torchvision|torchaudio|pytorch-triton|triton|nvidia-[a-z0-9-]+-cu[0-9]+)=='
  python -m pip --disable-pip-version-check list --format=freeze | grep -E "$of_torch" | sed 's/==/===/' > /tmp/torch.txt
  list=$1
  if [ "${1##*.}" = toml ]; then
    list=/tmp/requirements.txt
    python - "$1" > "$list" <<'END'
import sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"], sep="\n")
END
  fi
  $pip --constraint /tmp/torch.txt --requirement "$list"
fi

# Constraints of the base, as NVIDIA's have, are for its own packages.
PIP_CONSTRAINT='' $pip --target /opt/kit "$here"/distributed_experiment_kit-*.whl
echo /opt/kit > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/distributed_experiment_kit.pth"
printf '%s\n' '#!/usr/bin/env python' 'import sys' 'sys.path.insert(0, "/opt/kit")' \
  'from runner.cli import main' 'main()' > /usr/local/bin/runner
chmod 0755 /usr/local/bin/runner
rm -f /tmp/torch.txt /tmp/requirements.txt

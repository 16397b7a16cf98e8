#!/bin/sh
# Install the packages that an image's base lacks; both stages of the Dockerfile call this. torch is installed if the
# base has none. Other locked packages go into /opt/kit unless the base has the locked version; the base's own packages
# stay unchanged. TORCH=current installs the newest torch instead of 2.3.1; TORCH_CPU is an index of CPU-only builds.
set -eu
compile="python -m compileall -q --invalidation-mode unchecked-hash"  # no time stamps, so that builds are equal
export PYTHONHASHSEED=0
lock=requirements/${TORCH:-runtime}.lock
of_torch='^(torch|torchvision|triton|cuda-[a-z]+|nvidia-(cu|nccl|nv)[a-z0-9-]*)=='
unset PIP_CONSTRAINT  # NVIDIA's bases pin packages by it, which would apply to /opt/kit too
pip="python -m pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary :all:"

if ! python -m pip show --quiet torch 2> /dev/null; then
  if [ -n "${TORCH_CPU:-}" ]; then
    $pip --index-url "$TORCH_CPU" $(sed -nE 's/^(torch|torchvision)==([0-9.]+) .*/\1==\2+cpu/p' "$lock")
  else
    awk -v of_torch="$of_torch" '/^[a-z]/ {keep = $0 ~ of_torch} keep' "$lock" | $pip --require-hashes -r /dev/stdin
  fi
  $compile -j 0 "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true  # some files cannot be compiled
fi

{ python -m pip list --format=freeze; cat "$lock"; } |
  awk -v of_torch="$of_torch" '
    NF == 1 && /==/ {split($1, held, "=="); gsub(/[._]/, "-", held[1]); base[tolower(held[1]) "==" held[2]]; next}
    /^[a-z]/ {keep = !($1 in base) && $0 !~ of_torch}
    keep' |
  $pip --require-hashes --target /opt/kit -r /dev/stdin
$compile /opt/kit
printf '%s\n' '#!/usr/bin/env python' 'from runner.cli import main' 'main()' > /opt/kit/bin/runner
chmod 0755 /opt/kit/bin/runner

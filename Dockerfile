# The image of a node: `--target cpu` for machines without GPUs; `gpu`, the default, for the others.
# What the project adds lies in /opt/kit and /workspace. The base's own packages, its torch above all, stay as they are:
# /opt/kit holds the locked packages that the base has not, and PYTHONPATH puts them first for every Python of the base.
# From "the same in both stages" on, the two stages are the same.
ARG BASE_IMAGE=pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime
ARG CPU_BASE_IMAGE=python:3.11-slim

FROM ${CPU_BASE_IMAGE} AS cpu
ARG CPU_BASE_IMAGE
LABEL org.opencontainers.image.base.name="${CPU_BASE_IMAGE}"
WORKDIR /workspace
COPY --chmod=0755 requirements.lock ./
# For a base without torch: the CPU build from this package index, or, without one, the locked build.
ARG TORCH_CPU=
RUN if PYTHONDONTWRITEBYTECODE=1 python -m pip show --quiet torch 2> /dev/null; then exit 0; fi; \
    pip="python -m pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary :all:"; \
    if [ -n "$TORCH_CPU" ]; then \
      $pip --index-url "$TORCH_CPU" $(sed -nE 's/^(torch|torchvision)==([0-9.]+) .*/\1==\2+cpu/p' requirements.lock); \
    else \
      awk '/^[a-z]/ {keep = /^(torch|torchvision|triton|nvidia-[a-z0-9-]+-cu12)==/} keep' requirements.lock | \
      $pip --require-hashes -r /dev/stdin; \
    fi

# The same in both stages
ENV HOME=/tmp USER=kit PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/kit:/workspace PATH=/opt/kit/bin:$PATH
RUN { python -m pip list --format=freeze; cat requirements.lock; } | \
    awk 'NF == 1 && /==/ {split($1, w, "=="); gsub(/[._]/, "-", w[1]); have[tolower(w[1]) "==" w[2]]; next} \
         /^[a-z]/ {keep = !($1 in have) && !/^(torch|torchvision|triton|nvidia-[a-z0-9-]+-cu12)==/} \
         keep' | \
    python -m pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes \
      --target /opt/kit -r /dev/stdin && \
    PYTHONHASHSEED=0 python -m compileall -q --invalidation-mode unchecked-hash /opt/kit && \
    printf '%s\n' '#!/usr/bin/env python' 'from runner.cli import main' 'main()' > /opt/kit/bin/runner && \
    chmod 0755 /opt/kit/bin/runner
COPY --chmod=0755 . ./
LABEL org.opencontainers.image.title="distributed-experiment-kit" \
      org.opencontainers.image.description="Reproducible PyTorch distributed-training experiments, from one definition to one honest table" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 1000:1000
CMD ["runner", "--help"]

FROM ${BASE_IMAGE} AS gpu
ARG BASE_IMAGE
LABEL org.opencontainers.image.base.name="${BASE_IMAGE}"
WORKDIR /workspace
COPY --chmod=0755 requirements.lock ./

# The same in both stages
ENV HOME=/tmp USER=kit PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/kit:/workspace PATH=/opt/kit/bin:$PATH
RUN { python -m pip list --format=freeze; cat requirements.lock; } | \
    awk 'NF == 1 && /==/ {split($1, w, "=="); gsub(/[._]/, "-", w[1]); have[tolower(w[1]) "==" w[2]]; next} \
         /^[a-z]/ {keep = !($1 in have) && !/^(torch|torchvision|triton|nvidia-[a-z0-9-]+-cu12)==/} \
         keep' | \
    python -m pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes \
      --target /opt/kit -r /dev/stdin && \
    PYTHONHASHSEED=0 python -m compileall -q --invalidation-mode unchecked-hash /opt/kit && \
    printf '%s\n' '#!/usr/bin/env python' 'from runner.cli import main' 'main()' > /opt/kit/bin/runner && \
    chmod 0755 /opt/kit/bin/runner
COPY --chmod=0755 . ./
LABEL org.opencontainers.image.title="distributed-experiment-kit" \
      org.opencontainers.image.description="Reproducible PyTorch distributed-training experiments, from one definition to one honest table" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 1000:1000
CMD ["runner", "--help"]

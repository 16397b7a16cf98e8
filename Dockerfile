# The image of a node: `--target cpu` for machines without GPUs; `gpu`, the default, for the others.
# What the project adds is in /opt/kit (packages, by containers/install.sh) and /workspace (programs and runner). The
# base's own packages, its torch above all, are not changed; PYTHONPATH puts /opt/kit first for every Python of the base.
# A stage inherits its settings from one base only, so the settings after each FROM stand in both; a test compares them.
# The base's name comes last: two stages on one base have the same layers.
ARG BASE_IMAGE=pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime
ARG CPU_BASE_IMAGE=python:3.11-slim

FROM ${CPU_BASE_IMAGE} AS cpu
# The same in both stages
ARG TORCH=
ARG TORCH_CPU=
ENV HOME=/tmp USER=kit PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/kit:/workspace PATH=/opt/kit/bin:$PATH
WORKDIR /workspace
COPY --chmod=0755 requirements/runtime.lock requirements/current.lock requirements/
COPY --chmod=0755 containers/install.sh containers/
RUN containers/install.sh
COPY --chmod=0755 . ./
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="distributed-experiment-kit" \
      org.opencontainers.image.description="Reproducible PyTorch distributed-training experiments, from one definition to one honest table" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
USER 1000:1000
CMD ["runner", "--help"]
ARG CPU_BASE_IMAGE
LABEL org.opencontainers.image.base.name="${CPU_BASE_IMAGE}"

FROM ${BASE_IMAGE} AS gpu
# The same in both stages
ARG TORCH=
ARG TORCH_CPU=
ENV HOME=/tmp USER=kit PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/kit:/workspace PATH=/opt/kit/bin:$PATH
WORKDIR /workspace
COPY --chmod=0755 requirements/runtime.lock requirements/current.lock requirements/
COPY --chmod=0755 containers/install.sh containers/
RUN containers/install.sh
COPY --chmod=0755 . ./
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="distributed-experiment-kit" \
      org.opencontainers.image.description="Reproducible PyTorch distributed-training experiments, from one definition to one honest table" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
USER 1000:1000
CMD ["runner", "--help"]
ARG BASE_IMAGE
LABEL org.opencontainers.image.base.name="${BASE_IMAGE}"

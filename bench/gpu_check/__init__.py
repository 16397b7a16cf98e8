"""The programs at real sizes on the GPUs of this machine: `make gpu-check`."""

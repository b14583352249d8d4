"""The formats that a cabling can be written in, by name; how each is written is `export`'s."""

from enum import StrEnum


class Target(StrEnum):
    SLURM_CONF = "slurm-conf"
    SLURM_YAML = "slurm-yaml"
    TOPOGRAPH = "topograph"
    KUEUE = "kueue"
    PTM = "ptm"

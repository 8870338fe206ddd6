"""Names that RunPod knew when they were read: GPU ids and data centers. Newer ones exist, so an unknown one is no error."""

from __future__ import annotations

# REST v1 document of July 2026 (its double spaces are its own), RunPod's GPU page of February 2026 for B300, the last two weaker.
GPU_IDS = frozenset({
    "AMD Instinct MI300X OAM", "NVIDIA  A30", "NVIDIA  RTX A4500", "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA A30",
    "NVIDIA A40", "NVIDIA A5000 Ada", "NVIDIA B200", "NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080 Ti",
    "NVIDIA GeForce RTX 3080TI", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4070 Ti",
    "NVIDIA GeForce RTX 4080", "NVIDIA GeForce RTX 4080 SUPER", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5080",
    "NVIDIA GeForce RTX 5090", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA H200 NVL",
    "NVIDIA L4", "NVIDIA L40", "NVIDIA L40S", "NVIDIA RTX 2000 Ada Generation", "NVIDIA RTX 4000 Ada Generation",
    "NVIDIA RTX 4000 SFF Ada Generation", "NVIDIA RTX 5000 Ada Generation", "NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX A2000",
    "NVIDIA RTX A30", "NVIDIA RTX A4000", "NVIDIA RTX A4500", "NVIDIA RTX A5000", "NVIDIA RTX A6000",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "Tesla T4", "Tesla V100-FHHL-16GB", "Tesla V100-PCIE-16GB",
    "Tesla V100-PCIE-32GB", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB", "NVIDIA B300 SXM6 AC", "NVIDIA RTX PRO 4500 Blackwell",
    "NVIDIA RTX PRO 5000 Blackwell",
})  # fmt: skip

# REST v1 document of July 2026, then those named elsewhere in RunPod's documentation or seen in its catalogue.
DATA_CENTERS = frozenset({
    "AP-JP-1", "CA-MTL-1", "CA-MTL-2", "CA-MTL-3", "EU-CZ-1", "EU-FR-1", "EU-NL-1", "EU-RO-1", "EU-SE-1", "EUR-IS-1", "EUR-IS-2",
    "EUR-IS-3", "EUR-NO-1", "OC-AU-1", "US-CA-2", "US-DE-1", "US-GA-1", "US-GA-2", "US-IL-1", "US-KS-2", "US-KS-3", "US-NC-1",
    "US-TX-1", "US-TX-3", "US-TX-4", "US-WA-1", "CA-MTL-4", "EUR-IS-4", "EUR-IS-5", "US-CO-1", "US-MD-1", "US-MO-1", "US-MO-2",
    "US-NC-2", "US-NE-1", "US-PA-1",
})  # fmt: skip

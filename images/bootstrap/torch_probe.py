"""Print what torch can do with this host's GPUs, as `key=value` lines: version, available, count, gpu, problem."""

from __future__ import annotations


def main() -> None:
    """Every card is named and computed on: a sick one is counted and then fails at the first real question."""
    import torch

    print(f"version={torch.__version__}")
    print(f"available={torch.cuda.is_available()}")
    count = torch.cuda.device_count()
    print(f"count={count}")
    for index in range(count):
        try:
            print(f"gpu={index}: {torch.cuda.get_device_name(index)}")
            torch.ones(2, device=f"cuda:{index}").sum().item()
        except Exception as error:
            print(f"problem=GPU {index} fails: {' '.join(str(error).split())[:200]}")


if __name__ == "__main__":
    try:
        main()
    except Exception as failure:
        print(f"problem={type(failure).__name__}: {' '.join(str(failure).split())[:200]}")

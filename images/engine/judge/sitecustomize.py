"""Python reads this before anything else where this folder is on PYTHONPATH: the engine's own child processes need the stand-in, too."""

import os

if os.environ.get("PODWRIGHT_CARD"):
    import stand_in

    stand_in.install(os.environ["PODWRIGHT_CARD"])

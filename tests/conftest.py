"""Property tests: few and repeatable examples by default, a thousand of them for what .ci/run wants, many and fresh ones in a campaign (`make fuzz`)."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=_QUIET)
settings.register_profile("thousand", max_examples=1000, derandomize=True, deadline=None, database=None, suppress_health_check=_QUIET)
settings.register_profile("campaign", max_examples=3000, deadline=None, database=None, suppress_health_check=_QUIET, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A run in the background of a script is born deaf to Ctrl-C and its children inherit that; the tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

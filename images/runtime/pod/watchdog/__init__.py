"""Is the engine alive, working, or stuck? Pure verdicts over probes; acting on them is the supervisor's."""

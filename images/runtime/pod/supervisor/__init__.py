"""The owner of all state in a pod: pure decisions over events, and effects behind one interface."""

"""What happened in this pod, told to people: redacted, kept on disk, read out of the engine's log, mirrored to the Hub."""

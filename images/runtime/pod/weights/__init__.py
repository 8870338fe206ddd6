"""The weights on this pod's disk: are they whole, is there room for them, and how they come here."""

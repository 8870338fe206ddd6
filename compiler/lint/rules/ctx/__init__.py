"""Rules about context windows, batches and scheduling."""

"""`podwright local`: a profile served on this machine, by the same bundle, bootstrap and runtime as in a pod."""

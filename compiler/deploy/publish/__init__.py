"""Publishing: what goes to the Hub in one commit, what each running pod will make of it, and what it says afterwards."""

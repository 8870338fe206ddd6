"""Compiled graphs kept between pods: under which name, in which archive, restored and published by whom."""

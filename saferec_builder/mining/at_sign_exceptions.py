"""Sources in whose texts an @ is not the handle of a person, and is not masked as one."""

# ReDial and INSPIRED workers write @ before a film
AT_SIGN = {"redial": {"handle"}, "inspired": {"handle"}}

"""Sources in whose texts an @ is no handle of a person."""

# ReDial and INSPIRED workers write @ before a film
AT_SIGN = {"redial": {"handle"}, "inspired": {"handle"}}

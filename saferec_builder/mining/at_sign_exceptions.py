"""Sources whose texts use @ for other things than a person's handle: it is not masked there."""

# ReDial and INSPIRED workers write @ before a film
AT_SIGN = {"redial": {"handle"}, "inspired": {"handle"}}

"""The demo world: invented films and games, hand-written and generated conversations, simulated reviewers.

Written for this project and given away (CC0). For demos and tests, never for findings about people.
"""

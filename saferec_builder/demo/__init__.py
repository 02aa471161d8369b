"""The demo world: invented films and games, hand-written and generated conversations, simulated reviewers.

Written for this project and free to use (CC0). For demos and tests, never for findings about people.
"""

"""Trains and evaluates models on a release; depends only on core and scoring. This file imports nothing."""

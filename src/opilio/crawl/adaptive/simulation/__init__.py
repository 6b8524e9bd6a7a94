"""Replays a history of page changes through scheduling rules: the product's own and its peers'."""

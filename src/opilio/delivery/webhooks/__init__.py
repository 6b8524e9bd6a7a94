"""Webhook endpoints, and what is sent to them."""

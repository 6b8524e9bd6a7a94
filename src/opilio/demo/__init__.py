"""A small shop on loopback, so that a newcomer sees real pages crawled without the internet."""

from opilio.demo.policies import DEMO_LABELS, demo_policies
from opilio.demo.server import DemoShop, serving_shop

__all__ = ["DEMO_LABELS", "DemoShop", "demo_policies", "serving_shop"]

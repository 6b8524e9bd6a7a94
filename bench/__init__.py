"""What Opilio costs, as ratios measured in one run on one machine: `python -m bench [name …]`."""

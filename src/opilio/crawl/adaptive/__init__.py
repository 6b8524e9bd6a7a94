"""The adaptive schedule: when a page is worth its next crawl. Formulas: docs/explanation/adaptive.md."""

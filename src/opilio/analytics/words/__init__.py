"""What the default stages know about words: tables written for Opilio, and how they are matched."""

"""Rules by operator: what a node means for packed tokens. One file for each family of operators."""

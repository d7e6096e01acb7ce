"""Mining of log templates: masking of values, and generalization of what is left."""

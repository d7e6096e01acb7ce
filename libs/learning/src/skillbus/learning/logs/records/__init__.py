"""Records of a log: headers, levels, components, and lines that continue a record."""

"""Values of the logical types as text, JSON, CSV and Python objects, one by one and as columns."""

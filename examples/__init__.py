"""The two examples of FLIP-292, and a demonstration of them."""

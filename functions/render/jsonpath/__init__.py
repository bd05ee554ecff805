"""JSON paths as Flink has them: those of Jayway's json-path 2.7 over Jackson.

Libraries for Python follow RFC 9535 or Goessner's article, which give other results for missing names, indexes beyond
the end, functions and filters.
"""

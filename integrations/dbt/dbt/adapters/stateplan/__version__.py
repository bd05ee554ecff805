"""The version that ``dbt --version`` prints."""

version = "0.1.0"

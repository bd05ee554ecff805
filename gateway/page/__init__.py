"""The page of a gateway's jobs: what it shows as JSON-ready data, and what it asks of a job. No HTTP in it."""
